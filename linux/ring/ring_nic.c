// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The conventional descriptor-ring NIC of the rack (rtl/ring, docs/ring-nic.md) as an ordinary network interface.
 *
 * Sending does what figure 3.5 of the dissertation shows, for each packet: HEAD is read, a descriptor is written, TAIL is
 * written. Receiving is NAPI: an interrupt disarms itself, and the poll that finds no more arms it again with one write.
 *
 * A guest's code takes no simulated time, so the driver also charges what sending and receiving cost a processor.
 */
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/io.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/msi.h>
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/ip.h>

#include "ring_hw.h"

#define VENDOR 0x1F3D
#define DEVICE 0x0002
#define BAR_REGISTERS 0

#define RING_LOG2 8
#define RING_ENTRIES (1U << RING_LOG2)
#define RING_BYTES (RING_ENTRIES * ENTRY_BYTES)
#define BUFFER_BYTES 1536
/* Buffers given back with one write of TAIL. */
#define REFILL 16
#define STOP_TRIES 1000

#define STATUS_LINK 0x1
#define STATUS_IDLE 0x6
#define CONTROL_BOTH 0x3
/* Max payload 128 bytes, max read request 512 bytes: what every root complex takes. */
#define BUS_DEFAULT 0x20

static unsigned int send_ns;
module_param(send_ns, uint, 0444);
MODULE_PARM_DESC(send_ns, "nanoseconds that a processor needs to send a packet, stack included");

static unsigned int receive_ns;
module_param(receive_ns, uint, 0444);
MODULE_PARM_DESC(receive_ns, "nanoseconds that a processor needs to receive a packet, stack included");

static unsigned int application_ns;
module_param(application_ns, uint, 0444);
MODULE_PARM_DESC(application_ns, "nanoseconds that a program needs for a packet with data to application_port");

static unsigned int application_port = 11211;
module_param(application_port, uint, 0444);
MODULE_PARM_DESC(application_port, "TCP or UDP port of that program");

static unsigned int moderation_us;
module_param(moderation_us, uint, 0444);
MODULE_PARM_DESC(moderation_us, "microseconds from one interrupt to the next at least");

static char *mac;
module_param(mac, charp, 0444);
MODULE_PARM_DESC(mac, "MAC address, as 02:00:00:00:00:01; without it a random one");

/* One line of parameters serves this driver and that of IP-NUMA. */
static unsigned int store_ns;
module_param(store_ns, uint, 0444);
MODULE_PARM_DESC(store_ns, "not used: the rack's bus takes the time");
static unsigned int read_ns;
module_param(read_ns, uint, 0444);
MODULE_PARM_DESC(read_ns, "nanoseconds that reading a register takes on the bus; 0: not known");
static unsigned int poll_ns;
module_param(poll_ns, uint, 0444);
MODULE_PARM_DESC(poll_ns, "not used: nothing polls");

struct descriptor {
	__le64 address;
	__le32 order;
	__le32 status;
};

struct buffer {
	struct sk_buff *skb;
	dma_addr_t at;
	u32 bytes;
};

struct ring {
	struct descriptor *entries;
	dma_addr_t at;
	struct buffer buffers[RING_ENTRIES];
	u32 next; /* send: the next to be used; receive: the next to be filled by the NIC */
	u32 done; /* send: the next to be given back; receive: TAIL */
};

struct nic {
	struct net_device *dev;
	struct pci_dev *pci;
	void __iomem *registers;
	struct napi_struct napi;
	/* Reads of two contexts that meet in the guest's bus lose an answer. */
	spinlock_t reading;
	struct ring tx;
	struct ring rx;
	int irq;
};

static u32 nic_read(struct nic *nic, u32 offset)
{
	u32 value;

	spin_lock_bh(&nic->reading);
	value = ioread32(nic->registers + offset);
	spin_unlock_bh(&nic->reading);
	return value;
}

/*
 * A posted write takes a place in the guest's bus until the device has seen it, and a full bus drops it without a word. A
 * nanosecond is enough for that.
 */
static void nic_write(struct nic *nic, u32 offset, u32 value)
{
	iowrite32(value, nic->registers + offset);
	ndelay(1);
}

static void charge(unsigned int ns)
{
	if (ns)
		ndelay(ns);
}

/* The guest sees a register's value at whole microseconds: what it waits too long is not charged a second time. */
static unsigned int read_excess(void)
{
	return DIV_ROUND_UP(read_ns, 1000) * 1000 - read_ns;
}

static u32 after(u32 index)
{
	return (index + 1) & (RING_ENTRIES - 1);
}

/* The port that a packet with data goes to; 0: it has none, or no data. */
static u16 port_with_data(const struct sk_buff *skb)
{
	u32 at, end = skb->len;
	u8 protocol;

	if (skb->protocol == htons(ETH_P_IP)) {
		struct iphdr header;
		const struct iphdr *ip = skb_header_pointer(skb, 0, sizeof(header), &header);

		if (!ip || ip->ihl < 5 || (ip->frag_off & htons(IP_OFFSET)))
			return 0;
		at = 4 * ip->ihl;
		end = min_t(u32, end, ntohs(ip->tot_len));
		protocol = ip->protocol;
	} else if (skb->protocol == htons(ETH_P_IPV6)) {
		struct ipv6hdr header;
		const struct ipv6hdr *ip = skb_header_pointer(skb, 0, sizeof(header), &header);

		if (!ip)
			return 0;
		at = sizeof(*ip);
		end = min_t(u32, end, at + ntohs(ip->payload_len));
		protocol = ip->nexthdr;
	} else {
		return 0;
	}

	if (protocol == IPPROTO_UDP) {
		struct udphdr header;
		const struct udphdr *udp = skb_header_pointer(skb, at, sizeof(header), &header);

		return udp && end > at + sizeof(*udp) ? ntohs(udp->dest) : 0;
	}
	if (protocol == IPPROTO_TCP) {
		struct tcphdr header;
		const struct tcphdr *tcp = skb_header_pointer(skb, at, sizeof(header), &header);

		return tcp && end > at + 4 * tcp->doff ? ntohs(tcp->dest) : 0;
	}
	return 0;
}

/* ---- Sending ---------------------------------------------------------------------------------------------------- */

static u32 tx_room(const struct nic *nic)
{
	return (nic->tx.done - nic->tx.next - 1) & (RING_ENTRIES - 1);
}

/* Gives back what the NIC has sent. */
static void tx_clean(struct nic *nic, u32 head)
{
	struct ring *ring = &nic->tx;

	while (ring->done != head && ring->done != ring->next) {
		struct buffer *buffer = &ring->buffers[ring->done];

		dma_unmap_single(&nic->pci->dev, buffer->at, buffer->bytes, DMA_TO_DEVICE);
		dev_consume_skb_any(buffer->skb);
		buffer->skb = NULL;
		ring->done = after(ring->done);
	}
}

static netdev_tx_t nic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);
	struct ring *ring = &nic->tx;
	struct buffer *buffer = &ring->buffers[ring->next];
	struct descriptor *entry = &ring->entries[ring->next];

	charge(send_ns - min(send_ns, read_excess()));

	/* Step 2 of figure 3.5: is there room? */
	tx_clean(nic, nic_read(nic, REG_TX_HEAD));
	if (!tx_room(nic)) {
		netif_stop_queue(dev);
		nic_write(nic, REG_TX_ARM, ring->done);
		return NETDEV_TX_BUSY;
	}

	buffer->at = dma_map_single(&nic->pci->dev, skb->data, skb->len, DMA_TO_DEVICE);
	if (dma_mapping_error(&nic->pci->dev, buffer->at)) {
		dev->stats.tx_dropped++;
		dev_kfree_skb_any(skb);
		return NETDEV_TX_OK;
	}
	buffer->skb = skb;
	buffer->bytes = skb->len;
	dev->stats.tx_packets++;
	dev->stats.tx_bytes += skb->len;

	/* Nothing gives the packet back before the next one is sent: its socket must not wait for that. */
	skb_tx_timestamp(skb);
	skb_orphan(skb);
	nf_reset_ct(skb);

	/* Step 3. */
	entry->address = cpu_to_le64(buffer->at);
	entry->status = 0;
	entry->order = cpu_to_le32(buffer->bytes);
	dma_wmb();

	/* Step 4. */
	ring->next = after(ring->next);
	nic_write(nic, REG_TX_TAIL, ring->next);

	if (!tx_room(nic)) {
		netif_stop_queue(dev);
		nic_write(nic, REG_TX_ARM, ring->done);
	}
	return NETDEV_TX_OK;
}

/* The queue was full: the interrupt of the send ring has come, or another. */
static void tx_wake(struct nic *nic)
{
	if (!netif_queue_stopped(nic->dev))
		return;
	netif_tx_lock(nic->dev);
	tx_clean(nic, nic_read(nic, REG_TX_HEAD));
	if (tx_room(nic))
		netif_wake_queue(nic->dev);
	else
		nic_write(nic, REG_TX_ARM, nic->tx.done);
	netif_tx_unlock(nic->dev);
}

/* ---- Receiving -------------------------------------------------------------------------------------------------- */

/* Puts an empty buffer into the entry at TAIL; TAIL itself is written later. */
static int rx_give(struct nic *nic, struct sk_buff *skb)
{
	struct ring *ring = &nic->rx;
	struct buffer *buffer = &ring->buffers[ring->done];
	struct descriptor *entry = &ring->entries[ring->done];

	buffer->at = dma_map_single(&nic->pci->dev, skb->data, BUFFER_BYTES, DMA_FROM_DEVICE);
	if (dma_mapping_error(&nic->pci->dev, buffer->at))
		return -ENOMEM;
	buffer->skb = skb;
	buffer->bytes = BUFFER_BYTES;
	entry->address = cpu_to_le64(buffer->at);
	entry->order = cpu_to_le32(BUFFER_BYTES);
	entry->status = 0;
	ring->done = after(ring->done);
	return 0;
}

static struct sk_buff *rx_buffer(struct nic *nic)
{
	/* The NIC wants a DW boundary, so not NET_IP_ALIGN's two bytes behind one. */
	return __netdev_alloc_skb(nic->dev, BUFFER_BYTES, GFP_ATOMIC);
}

/*
 * Takes the packet at `next` out and puts an empty buffer in; without memory the packet is dropped and its buffer used
 * again, and so is one whose length cannot be.
 */
static void rx_packet(struct nic *nic, u32 status)
{
	struct ring *ring = &nic->rx;
	struct buffer *buffer = &ring->buffers[ring->next];
	u32 bytes = status & DESCRIPTOR_RECEIVED;
	bool sound = bytes >= ETH_HLEN && bytes <= buffer->bytes;
	struct sk_buff *skb = buffer->skb, *fresh = sound ? rx_buffer(nic) : NULL;

	dma_unmap_single(&nic->pci->dev, buffer->at, buffer->bytes, DMA_FROM_DEVICE);
	buffer->skb = NULL;
	ring->next = after(ring->next);
	if (!fresh || rx_give(nic, fresh)) {
		if (sound)
			nic->dev->stats.rx_dropped++;
		else
			nic->dev->stats.rx_length_errors++;
		if (fresh)
			dev_kfree_skb_any(fresh);
		if (rx_give(nic, skb))
			dev_kfree_skb_any(skb);
		return;
	}

	skb_put(skb, bytes);
	skb->protocol = eth_type_trans(skb, nic->dev);
	nic->dev->stats.rx_packets++;
	nic->dev->stats.rx_bytes += bytes;

	charge(receive_ns);
	if (application_ns && port_with_data(skb) == application_port)
		charge(application_ns);
	napi_gro_receive(&nic->napi, skb);
}

static int nic_poll(struct napi_struct *napi, int budget)
{
	struct nic *nic = container_of(napi, struct nic, napi);
	struct ring *ring = &nic->rx;
	int done = 0;

	tx_wake(nic);
	while (done < budget) {
		u32 status = le32_to_cpu(READ_ONCE(ring->entries[ring->next].status));

		if (!(status & DESCRIPTOR_DONE))
			break;
		dma_rmb();
		rx_packet(nic, status);
		done++;
		if (ring->done % REFILL == 0) {
			dma_wmb();
			nic_write(nic, REG_RX_TAIL, ring->done);
		}
	}
	/* What arrived since the last look interrupts at once. */
	if (done < budget && napi_complete_done(napi, done))
		nic_write(nic, REG_RX_ARM, ring->next);
	return done;
}

static irqreturn_t nic_interrupt(int irq, void *data)
{
	struct nic *nic = data;

	napi_schedule(&nic->napi);
	return IRQ_HANDLED;
}

/* ---- Up and down ------------------------------------------------------------------------------------------------ */

static void ring_free(struct nic *nic, struct ring *ring, enum dma_data_direction direction)
{
	u32 i;

	for (i = 0; i < RING_ENTRIES; i++) {
		struct buffer *buffer = &ring->buffers[i];

		if (!buffer->skb)
			continue;
		dma_unmap_single(&nic->pci->dev, buffer->at, buffer->bytes, direction);
		dev_kfree_skb_any(buffer->skb);
		buffer->skb = NULL;
	}
	if (ring->entries)
		dma_free_coherent(&nic->pci->dev, RING_BYTES, ring->entries, ring->at);
	ring->entries = NULL;
}

static int ring_new(struct nic *nic, struct ring *ring, u32 base)
{
	ring->entries = dma_alloc_coherent(&nic->pci->dev, RING_BYTES, &ring->at, GFP_KERNEL);
	if (!ring->entries)
		return -ENOMEM;
	ring->next = 0;
	ring->done = 0;
	nic_write(nic, base + REG_TX_BASE_LO - REG_TX_BASE_LO, lower_32_bits(ring->at));
	nic_write(nic, base + REG_TX_BASE_HI - REG_TX_BASE_LO, upper_32_bits(ring->at));
	nic_write(nic, base + REG_TX_LOG2 - REG_TX_BASE_LO, RING_LOG2);
	return 0;
}

static void write_mac(struct nic *nic)
{
	const u8 *address = nic->dev->dev_addr;

	nic_write(nic, REG_MAC_LO, address[2] << 24 | address[3] << 16 | address[4] << 8 | address[5]);
	nic_write(nic, REG_MAC_HI, address[0] << 8 | address[1]);
}

/* False: it does not come to rest. */
static bool nic_halt(struct nic *nic)
{
	int tries;

	nic_write(nic, REG_IRQ_ARMED, 0);
	nic_write(nic, REG_CONTROL, 0);
	for (tries = 0; tries < STOP_TRIES; tries++) {
		if ((nic_read(nic, REG_STATUS) & STATUS_IDLE) == STATUS_IDLE)
			return true;
		udelay(1);
	}
	return false;
}

static int nic_open(struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);
	struct msi_msg message;
	u32 i;
	int error;

	error = ring_new(nic, &nic->tx, REG_TX_BASE_LO);
	if (!error)
		error = ring_new(nic, &nic->rx, REG_RX_BASE_LO);
	/* HEAD = TAIL is an empty ring, so one entry is not used. */
	for (i = 0; !error && i < RING_ENTRIES - 1; i++) {
		struct sk_buff *skb = rx_buffer(nic);

		error = skb ? rx_give(nic, skb) : -ENOMEM;
		if (error && skb)
			dev_kfree_skb_any(skb);
	}
	if (!error)
		error = request_irq(nic->irq, nic_interrupt, 0, dev->name, nic);
	if (error) {
		ring_free(nic, &nic->tx, DMA_TO_DEVICE);
		ring_free(nic, &nic->rx, DMA_FROM_DEVICE);
		return error;
	}

	/* The NIC writes its interrupts itself, to where the kernel wants them. */
	get_cached_msi_msg(nic->irq, &message);
	nic_write(nic, REG_MSI_ADDRESS_LO, message.address_lo);
	nic_write(nic, REG_MSI_ADDRESS_HI, message.address_hi);
	nic_write(nic, REG_MSI_DATA, message.data);
	nic_write(nic, REG_MSI_MODERATION_US, moderation_us);
	nic_write(nic, REG_BUS, BUS_DEFAULT);
	nic_write(nic, REG_FILTER, !!(dev->flags & IFF_PROMISC));
	write_mac(nic);

	napi_enable(&nic->napi);
	pci_set_master(nic->pci);
	nic_write(nic, REG_CONTROL, CONTROL_BOTH);
	dma_wmb();
	nic_write(nic, REG_RX_TAIL, nic->rx.done);
	nic_write(nic, REG_RX_ARM, 0);
	if (nic_read(nic, REG_STATUS) & STATUS_LINK)
		netif_carrier_on(dev);
	netif_start_queue(dev);
	return 0;
}

static int nic_stop(struct net_device *dev)
{
	struct nic *nic = netdev_priv(dev);

	netif_tx_disable(dev);
	netif_carrier_off(dev);
	napi_disable(&nic->napi);
	if (!nic_halt(nic)) {
		/* It must not write into memory that is somebody else's. */
		netdev_err(dev, "the NIC does not come to rest: it may not use the bus until the interface is up again\n");
		pci_clear_master(nic->pci);
		nic_read(nic, REG_STATUS); /* what it has written before has arrived */
	}
	free_irq(nic->irq, nic);
	ring_free(nic, &nic->tx, DMA_TO_DEVICE);
	ring_free(nic, &nic->rx, DMA_FROM_DEVICE);
	return 0;
}

static void nic_rx_mode(struct net_device *dev)
{
	nic_write(netdev_priv(dev), REG_FILTER, !!(dev->flags & IFF_PROMISC));
}

static int nic_set_mac(struct net_device *dev, void *address)
{
	int error = eth_mac_addr(dev, address);

	if (!error)
		write_mac(netdev_priv(dev));
	return error;
}

static const struct net_device_ops nic_ops = {
	.ndo_open = nic_open,
	.ndo_stop = nic_stop,
	.ndo_start_xmit = nic_xmit,
	.ndo_set_rx_mode = nic_rx_mode,
	.ndo_set_mac_address = nic_set_mac,
	.ndo_validate_addr = eth_validate_addr,
};

/* ---- The NIC's counters: ethtool -S ----------------------------------------------------------------------------- */

#define OFFSET(offset, name) offset,
#define NAME(offset, name) name,
static const u16 counter_offsets[] = { RING_COUNTERS(OFFSET) };
static const char counter_names[][ETH_GSTRING_LEN] = { RING_COUNTERS(NAME) };

static int nic_counters(struct net_device *dev, int set)
{
	return set == ETH_SS_STATS ? ARRAY_SIZE(counter_offsets) : -EOPNOTSUPP;
}

static void nic_counter_names(struct net_device *dev, u32 set, u8 *names)
{
	memcpy(names, counter_names, sizeof(counter_names));
}

static void nic_counter_values(struct net_device *dev, struct ethtool_stats *stats, u64 *values)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(counter_offsets); i++)
		values[i] = nic_read(netdev_priv(dev), counter_offsets[i]);
}

static const struct ethtool_ops nic_ethtool_ops = {
	.get_link = ethtool_op_get_link,
	.get_sset_count = nic_counters,
	.get_strings = nic_counter_names,
	.get_ethtool_stats = nic_counter_values,
};

/* ---- Probe ------------------------------------------------------------------------------------------------------ */

static int nic_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct net_device *dev;
	struct nic *nic;
	u8 address[ETH_ALEN];
	u32 version;
	int error;

	error = pcim_enable_device(pci);
	if (error)
		return error;
	error = pcim_iomap_regions(pci, BIT(BAR_REGISTERS), KBUILD_MODNAME);
	if (error)
		return error;
	error = dma_set_mask_and_coherent(&pci->dev, DMA_BIT_MASK(64));
	if (error)
		return error;
	dev = devm_alloc_etherdev(&pci->dev, sizeof(*nic));
	if (!dev)
		return -ENOMEM;
	SET_NETDEV_DEV(dev, &pci->dev);
	nic = netdev_priv(dev);
	nic->dev = dev;
	nic->pci = pci;
	nic->registers = pcim_iomap_table(pci)[BAR_REGISTERS];
	spin_lock_init(&nic->reading);
	pci_set_drvdata(pci, nic);

	version = nic_read(nic, REG_VERSION);
	if (nic_read(nic, REG_ID) != ID_VALUE || version >> 16 != VERSION_MAJOR) {
		dev_err(&pci->dev, "no descriptor-ring NIC of version %u answers (version %#x)\n", VERSION_MAJOR, version);
		return -ENODEV;
	}
	if (!nic_halt(nic)) {
		dev_err(&pci->dev, "the NIC does not come to rest after a reset\n");
		return -EIO;
	}

	if (!mac) {
		eth_hw_addr_random(dev);
	} else if (mac_pton(mac, address) && is_valid_ether_addr(address)) {
		eth_hw_addr_set(dev, address);
	} else {
		dev_err(&pci->dev, "mac=%s is no MAC address of a host\n", mac);
		return -EINVAL;
	}

	error = pci_alloc_irq_vectors(pci, 1, 1, PCI_IRQ_MSI | PCI_IRQ_MSIX);
	if (error < 0) {
		dev_err(&pci->dev, "no message-signalled interrupt (%d)\n", error);
		return error;
	}
	nic->irq = pci_irq_vector(pci, 0);

	dev->netdev_ops = &nic_ops;
	dev->ethtool_ops = &nic_ethtool_ops;
	dev->max_mtu = ETH_DATA_LEN;
	netif_napi_add(dev, &nic->napi, nic_poll);
	netif_carrier_off(dev);
	error = register_netdev(dev);
	if (error)
		pci_free_irq_vectors(pci);
	return error;
}

static void nic_remove(struct pci_dev *pci)
{
	struct nic *nic = pci_get_drvdata(pci);

	unregister_netdev(nic->dev);
	netif_napi_del(&nic->napi);
	pci_free_irq_vectors(pci);
}

static const struct pci_device_id nic_ids[] = { { PCI_DEVICE(VENDOR, DEVICE) }, {} };
MODULE_DEVICE_TABLE(pci, nic_ids);

static struct pci_driver nic_driver = {
	.name = KBUILD_MODNAME,
	.id_table = nic_ids,
	.probe = nic_probe,
	.remove = nic_remove,
};
module_pci_driver(nic_driver);

MODULE_DESCRIPTION("The rack's conventional descriptor-ring NIC");
MODULE_LICENSE("Dual MIT/GPL");
