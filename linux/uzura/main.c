// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * UZURA in a guest of the rack: a verbs device of RoCEv2 (docs/uzura.md). Its rings are the kernel's, so that doorbells and
 * completions are calls: a guest's program cannot store to a BAR, and its code takes no simulated time, so that it
 * cannot poll. Queue pair 1 and users in the kernel are in kernel.c.
 *
 * MAC and IP address are those of the network interface beside it on the same cable.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/msi.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>

#include "uzura.h"

#define VENDOR 0x1F3D
#define DEVICE 0x0003
#define BAR_REGISTERS 0
#define BAR_DOORS 2
#define BAR_POLL 4
#define LINE_BYTES 64
#define GIDS 16
/* Reads of the command's register before it counts as lost. */
#define COMMAND_TRIES 10000
/* Of an interrupt that something else explains: the engine is asked once in so long. */
#define ASK_MS 1

unsigned int store_ns = 223;
module_param(store_ns, uint, 0444);
MODULE_PARM_DESC(store_ns, "nanoseconds that a processor needs for a posted write of up to 64 bytes (section 3.2)");

static char *mac;
module_param(mac, charp, 0444);
MODULE_PARM_DESC(mac, "MAC address of the network interface on the same cable, as 02:00:00:00:00:01");

/* ---- Registers -------------------------------------------------------------------------------------------------- */

/*
 * A posted write takes a place in the guest's bus until the device has seen it, and a full bus drops it without a word. A
 * nanosecond is enough for that.
 */
static void posted(void)
{
	ndelay(1);
}

void nic_charge(unsigned int ns)
{
	if (ns)
		ndelay(ns);
}

/* The engine's registers have 64 bits. */
void nic_write(struct nic *nic, u32 offset, u64 value)
{
	if (READ_ONCE(nic->down))
		return;
	writeq(value, nic->registers + offset);
	posted();
}

static void nic_write_own(struct nic *nic, u32 offset, u32 value)
{
	if (READ_ONCE(nic->down))
		return;
	writel(value, nic->registers + offset);
	posted();
}

u32 nic_read(struct nic *nic, u32 offset)
{
	lockdep_assert_held(&nic->control);
	return READ_ONCE(nic->down) ? 0 : readl(nic->registers + offset);
}

void nic_door(struct nic *nic, u32 page, u32 offset, u64 value)
{
	if (READ_ONCE(nic->down))
		return;
	writeq(value, nic->doors + page * DOOR_PAGE + offset);
	posted();
}

/* A copy of a send queue's entry: a transaction for each line, as a write-combining buffer makes them, and its cost. */
void nic_copy(struct nic *nic, u32 page, const void *entry, size_t bytes)
{
	size_t at;

	for (at = 0; at < bytes && !READ_ONCE(nic->down); at += LINE_BYTES) {
		memcpy_toio(nic->doors + page * DOOR_PAGE + DOOR_COPY + at, entry + at, LINE_BYTES);
		posted();
		nic_charge(store_ns);
	}
}

void nic_watch(struct nic *nic, u64 value)
{
	if (READ_ONCE(nic->down))
		return;
	writeq(value, nic->poll + POLL_ARM);
	posted();
}

int nic_command_locked(struct nic *nic, enum command command, u32 index, const u64 *words, u32 count)
{
	int tries, error = -EIO;
	u32 i;

	for (i = 0; i < count; i++)
		nic_write(nic, REG_WORDS + 8 * i, words[i]);
	nic_write(nic, REG_COMMAND, (u64)index << 8 | command);
	for (tries = 0; tries < COMMAND_TRIES && error; tries++)
		if (!(nic_read(nic, REG_COMMAND + 4) & COMMAND_BUSY))
			error = 0;
	if (error)
		dev_err(&nic->pci->dev, "the engine does not end command %u\n", command);
	return error;
}

int nic_command(struct nic *nic, enum command command, u32 index, const u64 *words, u32 count)
{
	int error;

	mutex_lock(&nic->control);
	error = nic_command_locked(nic, command, index, words, count);
	mutex_unlock(&nic->control);
	return error;
}

/* ---- The device ------------------------------------------------------------------------------------------------- */

static int uzura_query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib);

	if (udata->inlen || udata->outlen)
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = VERSION_MAJOR;
	attr->sys_image_guid = ib->node_guid;
	attr->vendor_id = VENDOR;
	attr->vendor_part_id = DEVICE;
	attr->hw_ver = nic->pci->revision;
	attr->max_mr_size = (u64)TABLE_ENTRIES << PAGE_SHIFT;
	attr->page_size_cap = PAGE_SIZE;
	attr->max_qp = QUEUE_PAIRS - 2;
	attr->max_qp_wr = 1 << MAX_LOG2;
	attr->device_cap_flags = IB_DEVICE_RC_RNR_NAK_GEN;
	attr->max_send_sge = MAX_SEND_SEGMENTS;
	attr->max_recv_sge = MAX_RECEIVE_SEGMENTS;
	attr->max_sge_rd = MAX_SEND_SEGMENTS;
	attr->max_cq = COMPLETION_QUEUES;
	attr->max_cqe = 1 << (MAX_CQ_LOG2 - 1);
	attr->max_mr = REGIONS - 1;
	attr->max_pd = 0xFFFF;
	attr->max_qp_rd_atom = MAX_READS;
	attr->max_qp_init_rd_atom = MAX_READS;
	attr->max_res_rd_atom = MAX_READS * QUEUE_PAIRS;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_ah = INT_MAX;
	attr->max_pkeys = 1;
	attr->max_srq = SHARED_QUEUES;
	attr->max_srq_wr = MAX_SHARED;
	attr->max_srq_sge = SHARED_SEGMENTS;
	return 0;
}

static int uzura_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct net_device *netdev = to_nic(ib)->netdev;

	attr->state = netif_running(netdev) && netif_carrier_ok(netdev) ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = attr->state == IB_PORT_ACTIVE ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = MAX_MTU;
	attr->active_mtu = min(iboe_get_mtu(netdev->mtu), MAX_MTU);
	attr->gid_tbl_len = GIDS;
	attr->pkey_tbl_len = 1;
	attr->ip_gids = true;
	attr->max_msg_sz = 0x7FFFFFFF;
	attr->active_width = IB_WIDTH_1X;
	attr->active_speed = IB_SPEED_QDR;
	attr->max_vl_num = 1;
	return 0;
}

static int uzura_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = GIDS;
	immutable->pkey_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer uzura_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

static int uzura_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

/* The engine has one IP address: the last one that the interface was given. */
static int uzura_add_gid(const struct ib_gid_attr *attr, void **context)
{
	struct nic *nic = to_nic(attr->device);
	u32 ip = be32_to_cpu(*(__be32 *)&attr->gid.raw[12]);

	if (attr->gid_type != IB_GID_TYPE_ROCE_UDP_ENCAP || !ipv6_addr_v4mapped((struct in6_addr *)&attr->gid))
		return 0;
	mutex_lock(&nic->control);
	nic_write(nic, REG_IP, ip);
	WRITE_ONCE(nic->ip, ip);
	mutex_unlock(&nic->control);
	return 0;
}

static int uzura_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int uzura_alloc_ucontext(struct ib_ucontext *ib, struct ib_udata *udata)
{
	return 0;
}

static void uzura_dealloc_ucontext(struct ib_ucontext *ib)
{
}

static const struct ib_device_ops uzura_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,

	.add_gid = uzura_add_gid,
	.alloc_pd = uzura_alloc_pd,
	.alloc_ucontext = uzura_alloc_ucontext,
	.create_ah = uzura_create_ah,
	.create_user_ah = uzura_create_ah,
	.create_cq = uzura_create_cq,
	.create_qp = uzura_create_qp,
	.create_srq = uzura_create_srq,
	.dealloc_pd = uzura_dealloc_pd,
	.dealloc_ucontext = uzura_dealloc_ucontext,
	.del_gid = uzura_del_gid,
	.dereg_mr = uzura_dereg_mr,
	.destroy_ah = uzura_destroy_ah,
	.destroy_cq = uzura_destroy_cq,
	.destroy_qp = uzura_destroy_qp,
	.destroy_srq = uzura_destroy_srq,
	.get_dma_mr = uzura_get_dma_mr,
	.get_link_layer = uzura_link_layer,
	.get_port_immutable = uzura_port_immutable,
	.modify_qp = uzura_modify_qp,
	.modify_srq = uzura_modify_srq,
	.poll_cq = uzura_poll_cq,
	.post_recv = uzura_post_recv,
	.post_send = uzura_post_send,
	.post_srq_recv = uzura_post_srq_recv,
	.query_device = uzura_query_device,
	.query_pkey = uzura_query_pkey,
	.query_port = uzura_query_port,
	.query_qp = uzura_query_qp,
	.query_srq = uzura_query_srq,
	.reg_user_mr = uzura_reg_user_mr,
	.req_notify_cq = uzura_req_notify_cq,
	.resize_cq = uzura_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, srq, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, context, ib),
};

static u64 read_both(struct nic *nic, u32 offset)
{
	return nic_read(nic, offset) | (u64)nic_read(nic, offset + 4) << 32;
}

/* Nobody sets a queue while `control` is held, so that what the engine says is of those that are here now. */
static void nic_ask(struct work_struct *work)
{
	struct nic *nic = container_of(work, struct nic, alarms.work);
	u64 ended;
	u32 below;

	mutex_lock(&nic->control);
	cq_overflows(nic, read_both(nic, REG_OVERFLOW));
	below = nic_read(nic, REG_BELOW);
	ended = read_both(nic, REG_ENDED);
	/* Behind a command all completions of those that have ended are written. */
	if (ended && nic_command_locked(nic, COMMAND_LOOK_QP, 0, NULL, 0))
		ended = 0;
	srq_events(nic, below, ended);
	mutex_unlock(&nic->control);
}

/* An interrupt may be of more than the completion that explains it. */
static void nic_alarm(struct nic *nic, bool explained)
{
	if (explained)
		queue_delayed_work(system_wq, &nic->alarms, msecs_to_jiffies(ASK_MS));
	else
		mod_delayed_work(system_wq, &nic->alarms, 0);
}

static irqreturn_t nic_interrupt(int irq, void *data)
{
	nic_alarm(data, cq_events(data));
	return IRQ_HANDLED;
}

/* A core that polls would have seen something now. */
static irqreturn_t poll_interrupt(int irq, void *data)
{
	struct nic *nic = data;

	WRITE_ONCE(nic->seen, nic->seen + 1);
	wake_up_all(&nic->looks);
	return IRQ_HANDLED;
}

/* ---- Probe ------------------------------------------------------------------------------------------------------ */

static struct net_device *interface(void)
{
	struct net_device *netdev, *found = NULL;
	u8 address[ETH_ALEN];

	if (!mac || !mac_pton(mac, address))
		return NULL;
	rtnl_lock();
	for_each_netdev(&init_net, netdev)
		if (ether_addr_equal(netdev->dev_addr, address))
			found = netdev;
	if (found)
		dev_hold(found);
	rtnl_unlock();
	return found;
}

static int nic_check(struct nic *nic)
{
	u32 id, version, low, high;

	mutex_lock(&nic->control);
	id = nic_read(nic, REG_ID);
	version = nic_read(nic, REG_VERSION);
	low = nic_read(nic, REG_IDENTITY);
	high = nic_read(nic, REG_IDENTITY + 4);
	mutex_unlock(&nic->control);
	if (id == ID_VALUE && version >> 16 == VERSION_MAJOR && ((u64)high << 32 | low) == IDENTITY_VALUE)
		return 0;
	dev_err(&nic->pci->dev, "no UZURA NIC of version %u answers (version %#x)\n", VERSION_MAJOR, version);
	return -ENODEV;
}

static int nic_interrupts(struct nic *nic)
{
	struct msi_msg message;
	int error = pci_alloc_irq_vectors(nic->pci, 2, 2, PCI_IRQ_MSIX);

	if (error < 0)
		return error;
	error = request_irq(pci_irq_vector(nic->pci, 0), nic_interrupt, 0, "uzura", nic);
	if (error)
		goto out_vectors;
	error = request_irq(pci_irq_vector(nic->pci, 1), poll_interrupt, 0, "uzura-poll", nic);
	if (error)
		goto out_irq;
	/* The message of vector 0 is the NIC's own to write; that of vector 1 the rack knows from the vector's table. */
	get_cached_msi_msg(pci_irq_vector(nic->pci, 0), &message);
	nic_write_own(nic, REG_MSI_ADDRESS_LO, message.address_lo);
	nic_write_own(nic, REG_MSI_ADDRESS_HI, message.address_hi);
	nic_write_own(nic, REG_MSI_DATA, message.data);
	nic_write_own(nic, REG_INTERRUPT, 1);
	return 0;

out_irq:
	free_irq(pci_irq_vector(nic->pci, 0), nic);
out_vectors:
	pci_free_irq_vectors(nic->pci);
	return error;
}

static void nic_quiet(struct nic *nic)
{
	nic_write_own(nic, REG_INTERRUPT, 0);
	writeq(0, nic->poll + POLL_DISARM_ALL);
	posted();
	pci_clear_master(nic->pci);
	free_irq(pci_irq_vector(nic->pci, 1), nic);
	free_irq(pci_irq_vector(nic->pci, 0), nic);
	cancel_delayed_work_sync(&nic->alarms);
	pci_free_irq_vectors(nic->pci);
}

static int nic_map(struct nic *nic)
{
	int error = pcim_enable_device(nic->pci);

	if (!error)
		error = pcim_iomap_regions(nic->pci, BIT(BAR_REGISTERS) | BIT(BAR_DOORS) | BIT(BAR_POLL), KBUILD_MODNAME);
	if (!error)
		error = dma_set_mask_and_coherent(&nic->pci->dev, DMA_BIT_MASK(64));
	if (error)
		return error;
	nic->registers = pcim_iomap_table(nic->pci)[BAR_REGISTERS];
	nic->doors = pcim_iomap_table(nic->pci)[BAR_DOORS];
	nic->poll = pcim_iomap_table(nic->pci)[BAR_POLL];
	return nic_check(nic);
}

/* Whoever holds the interface keeps it from going. */
static void nic_unregister(struct nic *nic)
{
	mutex_lock(&nic->ending);
	if (nic->registered) {
		ib_unregister_device(&nic->ib);
		dev_put(nic->netdev);
		nic->registered = false;
	}
	mutex_unlock(&nic->ending);
}

static void nic_gone(struct work_struct *work)
{
	nic_unregister(container_of(work, struct nic, gone));
}

/* Under the lock that unregistering takes, hence elsewhere. */
static int nic_watch_interface(struct notifier_block *watcher, unsigned long event, void *info)
{
	struct nic *nic = container_of(watcher, struct nic, watcher);

	if (event == NETDEV_UNREGISTER && netdev_notifier_info_to_dev(info) == nic->netdev)
		queue_work(system_unbound_wq, &nic->gone);
	return NOTIFY_DONE;
}

static void nic_begin(struct nic *nic)
{
	mutex_init(&nic->control);
	mutex_init(&nic->ending);
	INIT_WORK(&nic->gone, nic_gone);
	INIT_DELAYED_WORK(&nic->alarms, nic_ask);
	spin_lock_init(&nic->lock);
	init_waitqueue_head(&nic->looks);
	ida_init(&nic->cq_numbers);
	ida_init(&nic->qp_numbers);
	ida_init(&nic->srq_numbers);
	ida_init(&nic->region_numbers);
	ida_init(&nic->pd_numbers);
}

static int nic_register(struct nic *nic)
{
	struct ib_device *ib = &nic->ib;
	int error;

	ib->node_type = RDMA_NODE_IB_CA;
	ib->phys_port_cnt = 1;
	ib->num_comp_vectors = 1;
	ib->dev.parent = &nic->pci->dev;
	addrconf_addr_eui48((u8 *)&ib->node_guid, nic->netdev->dev_addr);
	ib->uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) | BIT_ULL(IB_USER_VERBS_CMD_POST_RECV) |
			       BIT_ULL(IB_USER_VERBS_CMD_POLL_CQ) | BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ) |
			       BIT_ULL(IB_USER_VERBS_CMD_POST_SRQ_RECV);
	ib_set_device_ops(ib, &uzura_ops);
	error = ib_device_set_netdev(ib, nic->netdev, 1);
	if (error)
		return error;
	dma_set_max_seg_size(&nic->pci->dev, UINT_MAX);
	return ib_register_device(ib, "uzura%d", &nic->pci->dev);
}

static int nic_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct nic *nic = ib_alloc_device(nic, ib);
	int error;

	if (!nic)
		return -ENOMEM;
	nic->pci = pci;
	nic_begin(nic);
	pci_set_drvdata(pci, nic);
	error = nic_map(nic);
	if (error)
		goto out_device;
	error = -ENODEV;
	nic->netdev = interface();
	if (!nic->netdev) {
		dev_err(&pci->dev, "no network interface has the address mac=%s\n", mac ?: "");
		goto out_device;
	}
	error = -ENOMEM;
	nic->table_used = bitmap_zalloc(TABLE_ENTRIES, GFP_KERNEL);
	if (!nic->table_used)
		goto out_netdev;
	nic->table = dma_alloc_coherent(&pci->dev, TABLE_ENTRIES * sizeof(*nic->table), &nic->table_at, GFP_KERNEL);
	if (!nic->table)
		goto out_used;
	error = nic_interrupts(nic);
	if (error)
		goto out_table;
	pci_set_master(pci);
	mutex_lock(&nic->control);
	nic_write(nic, REG_MAC, ether_addr_to_u64(nic->netdev->dev_addr));
	nic_write(nic, REG_TABLE, nic->table_at);
	mutex_unlock(&nic->control);
	error = nic_register(nic);
	if (error)
		goto out_quiet;
	nic->registered = true;
	nic->watcher.notifier_call = nic_watch_interface;
	error = register_netdevice_notifier(&nic->watcher);
	if (!error)
		return 0;

	ib_unregister_device(&nic->ib);
out_quiet:
	nic_quiet(nic);
out_table:
	dma_free_coherent(&pci->dev, TABLE_ENTRIES * sizeof(*nic->table), nic->table, nic->table_at);
out_used:
	bitmap_free(nic->table_used);
out_netdev:
	dev_put(nic->netdev);
out_device:
	ib_dealloc_device(&nic->ib);
	return error;
}

static void nic_remove(struct pci_dev *pci)
{
	struct nic *nic = pci_get_drvdata(pci);

	unregister_netdevice_notifier(&nic->watcher);
	flush_work(&nic->gone);
	nic_unregister(nic);
	nic_quiet(nic);
	dma_free_coherent(&pci->dev, TABLE_ENTRIES * sizeof(*nic->table), nic->table, nic->table_at);
	bitmap_free(nic->table_used);
	ib_dealloc_device(&nic->ib);
}

/* The machine goes, and behind the devices its bus. Users in the kernel may come yet: nothing of theirs leads anywhere. */
static void nic_shutdown(struct pci_dev *pci)
{
	struct nic *nic = pci_get_drvdata(pci);

	nic_quiet(nic);
	WRITE_ONCE(nic->down, true);
}

static const struct pci_device_id nic_ids[] = { { PCI_DEVICE(VENDOR, DEVICE) }, {} };
MODULE_DEVICE_TABLE(pci, nic_ids);

static struct pci_driver nic_driver = {
	.name = KBUILD_MODNAME,
	.id_table = nic_ids,
	.probe = nic_probe,
	.remove = nic_remove,
	.shutdown = nic_shutdown,
};
module_pci_driver(nic_driver);

MODULE_DESCRIPTION("UZURA, the rack's RDMA engine");
MODULE_LICENSE("Dual MIT/GPL");
