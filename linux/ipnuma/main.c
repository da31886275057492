// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The IP-NUMA NIC, on a board and in a guest of the rack: /dev/ipnuma0, docs/linux.md.
 *
 * A guest's program cannot store to a BAR itself (the guest's processor is this machine's, where the BAR does not
 * exist), and its code takes no simulated time, so it cannot poll either. Both are therefore calls of this driver, which
 * also charges what a store costs a processor. On a board, which has no BAR 4, time passes by itself, nothing is charged,
 * and who waits is woken by the NIC's interrupts.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/msi.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ipnuma.h"

static unsigned int store_ns = 223;
module_param(store_ns, uint, 0444);
MODULE_PARM_DESC(store_ns, "nanoseconds that a processor needs for a posted write of up to 64 bytes (section 3.2)");

static unsigned int ack_ticks;
module_param(ack_ticks, uint, 0444);
MODULE_PARM_DESC(ack_ticks, "register ACK_TICKS; 0: as after reset, which suits 10G (1G: 16 to 32)");

static unsigned short moderation_us = 5;
module_param(moderation_us, ushort, 0444);
MODULE_PARM_DESC(moderation_us, "microseconds from one interrupt to the next at least, on a board");

static unsigned int pace;
module_param(pace, uint, 0444);
MODULE_PARM_DESC(pace, "register PACE; 0: as after reset, which suits 10G (1G: 0x01006FFF)");

/* Reads take the control mutex: two that meet in the guest's bus lose an answer. */
u32 nic_read(struct nic *nic, u32 offset)
{
	lockdep_assert_held(&nic->control);
	return ioread32(nic->registers + offset);
}

/*
 * A posted write takes a place in the queue of a guest's bus until the device has seen it, and a full queue drops it
 * without a word. A nanosecond is enough for the answer to be taken.
 */
static void posted(void)
{
	if (IS_ENABLED(CONFIG_UML))
		ndelay(1);
}

void nic_write(struct nic *nic, u32 offset, u32 value)
{
	iowrite32(value, nic->registers + offset);
	posted();
}

void nic_poll_write(struct nic *nic, u32 offset, u64 value)
{
	writeq(value, nic->poll + offset);
	posted();
}

/* The last DW of an entry makes it valid, and each table has one place for those before: one writer at a time. */
void nic_write_entry(struct nic *nic, u32 base, u32 index, const u32 *dws, u32 count)
{
	u32 dw;

	lockdep_assert_held(&nic->control);
	for (dw = 0; dw < count; dw++)
		nic_write(nic, base + 4 * (index * count + dw), dws[dw]);
}

/* The kernel's clock. It has steps of 256 ns, and to read it takes one, unless interrupts are off. */
u64 nic_clock(void)
{
	unsigned long flags;
	u64 now;

	local_irq_save(flags);
	now = ktime_get_ns();
	local_irq_restore(flags);
	return now;
}

/* Simulated time to the nanosecond: the device knows it. */
static long get_now(struct nic *nic, u64 __user *arg)
{
	u64 now;

	if (!nic->poll)
		return -EOPNOTSUPP;
	mutex_lock(&nic->control);
	now = readq(nic->poll + POLL_NOW);
	mutex_unlock(&nic->control);
	return put_user(now != ~0ULL ? now : nic_clock(), arg);
}

/*
 * One transaction for each line that is touched, as a write-combining buffer makes them, in their order, and its cost.
 * Returns how many there were.
 */
u32 nic_store(struct nic *nic, u64 at, const void *from, size_t bytes)
{
	u32 count = 0;

	for (; bytes; count++) {
		size_t step = min_t(size_t, bytes, LINE_BYTES - at % LINE_BYTES);

		memcpy_toio(nic->pages + at, from, step);
		wmb(); /* else a processor may let the next line out first */
		if (nic->poll && store_ns)
			ndelay(store_ns);
		else
			posted();
		at += step;
		from += step;
		bytes -= step;
	}
	return count;
}

/*
 * Takes pages and keys for the user who calls. All share them, so that one may have half, unless it may have all. An
 * error pointer if it may not have so many.
 */
struct holder *holder_charge(struct nic *nic, u32 pages, u32 keys)
{
	struct holder *holder;

	lockdep_assert_held(&nic->control);
	list_for_each_entry(holder, &nic->holding, list)
		if (uid_eq(holder->uid, current_uid()))
			goto found;
	holder = kzalloc(sizeof(*holder), GFP_KERNEL);
	if (!holder)
		return ERR_PTR(-ENOMEM);
	holder->uid = current_uid();
	list_add_tail(&holder->list, &nic->holding);
found:
	holder->pages += pages;
	holder->keys += keys;
	if ((holder->pages > nic->page_count / 2 || holder->keys > nic->keys / 2) && !capable(CAP_SYS_RESOURCE)) {
		holder_uncharge(holder, pages, keys);
		return ERR_PTR(-EDQUOT);
	}
	return holder;
}

void holder_uncharge(struct holder *holder, u32 pages, u32 keys)
{
	holder->pages -= pages;
	holder->keys -= keys;
	if (holder->pages || holder->keys)
		return;
	list_del(&holder->list);
	kfree(holder);
}

static void tell(struct client *client, const struct ipnuma_event *event)
{
	static const struct ipnuma_event lost = { .code = IPNUMA_EVENTS_LOST };

	/* The last place is for the word that there were more. */
	if (kfifo_avail(&client->events) > 1) {
		kfifo_put(&client->events, *event);
		client->lost = false;
	} else if (!client->lost) {
		kfifo_put(&client->events, lost);
		client->lost = true;
	}
	wake_up_interruptible_poll(&client->queue, EPOLLIN | EPOLLRDNORM);
}

/* A place for a mark: the caller holds the lock, and has one. */
static bool mark_place(struct nic *nic)
{
	lockdep_assert_held(&nic->lock);
	if (!nic->marks_left)
		return false;
	nic->marks_left--;
	return true;
}

/* The NIC has answered, and nobody asks for the answer any more. */
static void mark_free(struct nic *nic, struct mark *mark)
{
	lockdep_assert_held(&nic->lock);
	list_del(&mark->list);
	kfree(mark);
	nic->marks_left++;
	wake_up_all(&nic->flushed);
}

static void mark_done(struct nic *nic, struct mark *mark, bool delivered)
{
	struct ipnuma_event event = {
		.code = delivered ? IPNUMA_FLUSHED : IPNUMA_FLUSH_FAILED,
		.number = mark->number,
	};

	if (mark->client) {
		tell(mark->client, &event);
		mark->client->marks--;
	} else if (!mark->orphan) {
		mark->delivered = delivered;
		WRITE_ONCE(mark->done, true);
		return;
	}
	mark_free(nic, mark);
}

void nic_peer_lost(struct nic *nic, struct peer *peer)
{
	struct ipnuma_event told = { .code = IPNUMA_LOST, .session = peer->session };
	struct client *client;

	lockdep_assert_held(&nic->lock);
	peer->lost = true;
	peer_fault(nic, peer, IPNUMA_STATE_LOST);
	list_for_each_entry(client, &nic->clients, list)
		tell(client, &told);
}

static void event(struct nic *nic, const u32 *dws)
{
	u8 code = dws[0];
	u16 who = dws[1], number = dws[1] >> 16;
	struct ipnuma_event told = { .code = code, .session = who };
	struct mark *mark, *next;
	struct window *window;
	struct client *client;

	switch (code) {
	case EVENT_FLUSHED:
	case EVENT_FLUSH_FAILED:
		list_for_each_entry_safe(mark, next, &nic->marks, list)
			if (mark->cookie == number)
				mark_done(nic, mark, code == EVENT_FLUSHED);
		wake_up_all(&nic->flushed);
		return;
	case EVENT_LINK_DOWN:
	case EVENT_LINK_UP:
		nic->link_up = code == EVENT_LINK_UP;
		break;
	case EVENT_OVERFLOW:
		/* Nobody knows whose they were. */
		peer_fault(nic, NULL, 0);
		break;
	case EVENT_PEER_LOST:
		if (who < MOST_PEERS && nic->peers[who].valid) {
			nic_peer_lost(nic, &nic->peers[who]);
			return;
		}
		break;
	default:
		if (code < EVENT_ERR_BAD_KEY || code > EVENT_ERR_BAD_BOUNDS)
			return;
		told.key = dws[3];
		list_for_each_entry(window, &nic->windows, list) {
			if (window->cut || window->peer->session != who || window->key != (u16)dws[3])
				continue;
			if (code == EVENT_ERR_BAD_KEY)
				WRITE_ONCE(window->status->state, window->status->state | IPNUMA_STATE_REVOKED);
			WRITE_ONCE(window->status->faults, window->status->faults + 1);
		}
	}
	list_for_each_entry(client, &nic->clients, list)
		tell(client, &told);
}

static __le32 *event_entry(struct nic *nic, u32 taken)
{
	return nic->events + (taken % EVENTS) * (EVENT_BYTES / 4);
}

/* Whether so many are taken and there is another: its number is in it. */
static bool event_there(struct nic *nic, u32 taken)
{
	return le32_to_cpu(READ_ONCE(*event_entry(nic, taken))) >> 16 == (u16)(taken + 1);
}

static void take_events(struct nic *nic)
{
	u32 before = nic->events_taken;

	while (event_there(nic, nic->events_taken)) {
		__le32 *entry = event_entry(nic, nic->events_taken);
		u32 dws[4], dw;

		dws[0] = le32_to_cpu(READ_ONCE(entry[0]));
		rmb(); /* the count is new, so the rest is */
		for (dw = 1; dw < 4; dw++)
			dws[dw] = le32_to_cpu(READ_ONCE(entry[dw]));
		WRITE_ONCE(nic->events_taken, nic->events_taken + 1);
		spin_lock_irq(&nic->lock);
		event(nic, dws);
		spin_unlock_irq(&nic->lock);
	}
	if (nic->events_taken != before)
		nic_write(nic, REG_EVENT_TAIL, nic->events_taken);
}

/*
 * Without BAR 4 the NIC interrupts for arrivals from the first wait on, until one comes that nobody watches for: who waits
 * again and again pays for no register. When this returns, a store that is not in memory yet will interrupt: the read comes
 * back behind all that were accepted before the register was written.
 */
void nic_arrivals(struct nic *nic)
{
	mutex_lock(&nic->control);
	if (!nic->arrivals) {
		nic->arrivals = true;
		nic_write(nic, REG_MSI_CONTROL, MSI_ON_ARRIVAL | MSI_ON_EVENT);
		nic_read(nic, REG_ID);
	}
	mutex_unlock(&nic->control);
}

/* Who begins to watch now finds it off, or takes the mutex after this. */
static void no_arrivals(struct nic *nic)
{
	bool nobody;

	mutex_lock(&nic->control);
	spin_lock_irq(&nic->lock);
	nobody = list_empty(&nic->watched);
	spin_unlock_irq(&nic->lock);
	if (nic->arrivals && nobody) {
		nic->arrivals = false;
		nic_write(nic, REG_MSI_CONTROL, MSI_ON_EVENT);
	}
	mutex_unlock(&nic->control);
}

static irqreturn_t events_thread(int irq, void *data)
{
	struct nic *nic = data;

	take_events(nic);
	if (!nic->poll)
		no_arrivals(nic);
	return IRQ_HANDLED;
}

static irqreturn_t poll_interrupt(int irq, void *data)
{
	regions_fire(data);
	return IRQ_HANDLED;
}

/*
 * The only vector there is: both causes. The thread has something to do if there is an event, or nobody watched. What it has
 * taken may be seen here late, which wakes it once too often.
 */
static irqreturn_t shared_interrupt(int irq, void *data)
{
	struct nic *nic = data;
	bool watched = regions_fire(nic);

	return watched && !event_there(nic, READ_ONCE(nic->events_taken)) ? IRQ_HANDLED : IRQ_WAKE_THREAD;
}

static bool begin_waiting(struct nic *nic, struct mark *mark)
{
	bool begun;

	spin_lock_irq(&nic->lock);
	begun = mark_place(nic);
	if (begun) {
		mark->cookie = ++nic->last_cookie;
		list_add_tail(&mark->list, &nic->marks);
	}
	spin_unlock_irq(&nic->lock);
	return begun;
}

/* Waits until a condition holds, for so many nanoseconds since `begin`; less than 0: for ever. */
#define wait_for(nic, condition, begin, timeout_ns)                                                                   \
	((timeout_ns) < 0 ? wait_event_interruptible((nic)->flushed, condition)                                       \
			  : wait_event_interruptible_hrtimeout(                                                        \
				    (nic)->flushed, condition,                                                         \
				    ns_to_ktime(max_t(s64, (timeout_ns) - (s64)(nic_clock() - (begin)), 0))))

long nic_flush(struct nic *nic, struct window *window, s64 timeout_ns)
{
	struct mark *mark = kzalloc(sizeof(*mark), GFP_KERNEL);
	u64 begin = timeout_ns < 0 ? 0 : nic_clock();
	bool done, delivered;
	long error;

	if (!mark)
		return -ENOMEM;
	/* The NIC has a few places for marks; who waits for one waits for others' peers, too. */
	error = wait_for(nic, begin_waiting(nic, mark), begin, timeout_ns);
	if (error) {
		kfree(mark);
		return error == -ETIME ? -ETIMEDOUT : -EINTR;
	}
	mutex_lock(&nic->control);
	if (window->cut) {
		mutex_unlock(&nic->control);
		spin_lock_irq(&nic->lock);
		mark_free(nic, mark);
		spin_unlock_irq(&nic->lock);
		return -EHOSTUNREACH;
	}
	nic_write(nic, REG_FLUSH, (u32)mark->cookie << 16 | window->peer->session);
	mutex_unlock(&nic->control);
	error = wait_for(nic, READ_ONCE(mark->done), begin, timeout_ns);
	spin_lock_irq(&nic->lock);
	done = mark->done;
	delivered = mark->delivered;
	if (done)
		mark_free(nic, mark);
	else
		mark->orphan = true; /* its place is the NIC's until it answers */
	spin_unlock_irq(&nic->lock);
	if (done)
		return delivered ? 0 : -EHOSTUNREACH;
	return error == -ETIME ? -ETIMEDOUT : -EINTR;
}

/* A flush that nobody waits for. */
static long begin_mark(struct client *client, struct ipnuma_mark __user *arg)
{
	struct nic *nic = client->nic;
	struct ipnuma_mark wanted;
	struct mark *mark;
	u16 cookie;

	if (copy_from_user(&wanted, arg, sizeof(wanted)))
		return -EFAULT;
	if (wanted.session >= MOST_PEERS || wanted.reserved)
		return -EINVAL;
	if (!nic->peers[wanted.session].valid)
		return -EHOSTUNREACH;
	mark = kzalloc(sizeof(*mark), GFP_KERNEL);
	if (!mark)
		return -ENOMEM;
	mark->client = client;
	mark->number = wanted.number;
	spin_lock_irq(&nic->lock);
	/* Half of the places are for others. */
	if (client->marks >= FLUSH_MARKS / 2 || !mark_place(nic)) {
		spin_unlock_irq(&nic->lock);
		kfree(mark);
		return -EAGAIN;
	}
	client->marks++;
	cookie = mark->cookie = ++nic->last_cookie;
	list_add_tail(&mark->list, &nic->marks);
	spin_unlock_irq(&nic->lock);
	nic_write(nic, REG_FLUSH, (u32)cookie << 16 | wanted.session);
	return 0;
}

static int nic_open(struct inode *inode, struct file *file)
{
	struct nic *nic = container_of(file->private_data, struct nic, misc);
	struct client *client = kzalloc(sizeof(*client), GFP_KERNEL);

	if (!client)
		return -ENOMEM;
	client->nic = nic;
	init_waitqueue_head(&client->queue);
	INIT_KFIFO(client->events);
	spin_lock_irq(&nic->lock);
	list_add_tail(&client->list, &nic->clients);
	spin_unlock_irq(&nic->lock);
	file->private_data = client;
	return 0;
}

static int nic_release(struct inode *inode, struct file *file)
{
	struct client *client = file->private_data;
	struct nic *nic = client->nic;
	struct mark *mark;

	spin_lock_irq(&nic->lock);
	list_del(&client->list);
	list_for_each_entry(mark, &nic->marks, list) {
		if (mark->client != client)
			continue;
		mark->client = NULL;
		mark->orphan = true;
	}
	spin_unlock_irq(&nic->lock);
	kfree(client);
	return 0;
}

static __poll_t nic_poll(struct file *file, poll_table *table)
{
	struct client *client = file->private_data;

	poll_wait(file, &client->queue, table);
	return kfifo_is_empty(&client->events) ? 0 : EPOLLIN | EPOLLRDNORM;
}

/* Whole events, as many as there are and fit; never waits. */
static ssize_t nic_read_events(struct file *file, char __user *into, size_t bytes, loff_t *position)
{
	struct client *client = file->private_data;
	struct ipnuma_event event;
	size_t done = 0;

	while (bytes - done >= sizeof(event)) {
		bool there;

		spin_lock_irq(&client->nic->lock);
		there = kfifo_get(&client->events, &event);
		spin_unlock_irq(&client->nic->lock);
		if (!there)
			break;
		if (copy_to_user(into + done, &event, sizeof(event)))
			return -EFAULT;
		done += sizeof(event);
	}
	return done ? done : bytes < sizeof(event) ? -EINVAL : -EAGAIN;
}

static long get_info(struct nic *nic, struct ipnuma_info __user *arg)
{
	struct ipnuma_info info = {
		.abi = IPNUMA_ABI,
		.version = nic->version,
		.pages = nic->page_count,
		.pc_ids = nic->pc_ids,
		.regions = nic->keys,
		.sessions = nic->sessions,
		.flags = (IS_ENABLED(CONFIG_UML) ? IPNUMA_FROZEN : 0) | (nic->poll ? IPNUMA_CHARGES : 0) |
			 (READ_ONCE(nic->link_up) ? IPNUMA_LINK_UP : 0) | (nic->seals ? IPNUMA_SEALS : 0),
		.store_ns = nic->poll ? store_ns : 0,
		.most_region = memory_most(nic),
	};

	mutex_lock(&nic->control);
	info.ip = nic->identity.ip;
	info.netmask = nic->identity.netmask;
	info.mac = nic->identity.mac;
	mutex_unlock(&nic->control);
	return copy_to_user(arg, &info, sizeof(info)) ? -EFAULT : 0;
}

void nic_set_mac(struct nic *nic, u64 mac)
{
	nic->identity.mac = mac;
	nic_write(nic, REG_MAC_LO, mac);
	nic_write(nic, REG_MAC_HI, mac >> 32);
}

static long set_identity(struct nic *nic, struct ipnuma_identity __user *arg)
{
	struct ipnuma_identity identity;
	int interface = 0;

	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (copy_from_user(&identity, arg, sizeof(identity)))
		return -EFAULT;
	if (identity.mac >> 48 || identity.gateway_mac >> 48)
		return -EINVAL;
	if (!identity.mac) {
		/* The kernel knows the way to everyone, and so each peer's next hop: there is no gateway for all. */
		if (identity.gateway_mac)
			return -EINVAL;
		interface = neighbour_own(identity.ip, &identity.mac);
		if (!interface)
			return -EADDRNOTAVAIL;
	}
	mutex_lock(&nic->control);
	nic->identity = identity;
	WRITE_ONCE(nic->interface, interface);
	nic_set_mac(nic, identity.mac);
	nic_write(nic, REG_IP, identity.ip);
	nic_write(nic, REG_NETMASK, interface ? 0 : identity.netmask);
	nic_write(nic, REG_GATEWAY_MAC_LO, identity.gateway_mac);
	nic_write(nic, REG_GATEWAY_MAC_HI, identity.gateway_mac >> 32);
	nic_read(nic, REG_ID);
	mutex_unlock(&nic->control);
	return 0;
}

static long charge(struct nic *nic, u32 __user *arg)
{
	u32 ns;

	if (!nic->poll)
		return -EOPNOTSUPP;
	if (get_user(ns, arg))
		return -EFAULT;
	if (ns > IPNUMA_MOST_CHARGE)
		return -EINVAL;
	if (ns)
		ndelay(ns);
	return 0;
}

static long nic_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct client *client = file->private_data;
	struct nic *nic = client->nic;
	void __user *user = (void __user *)arg;

	switch (command) {
	case IPNUMA_INFO:
		return get_info(nic, user);
	case IPNUMA_CHARGE:
		return charge(nic, user);
	case IPNUMA_NOW:
		return get_now(nic, user);
	case IPNUMA_IDENTITY:
		return set_identity(nic, user);
	case IPNUMA_PEER:
		return peer_set(nic, user);
	case IPNUMA_PEER_GET:
		return peer_get(nic, user);
	case IPNUMA_SEALED_PEER:
		return peer_set_sealed(nic, user);
	case IPNUMA_KEYS:
		return peer_keys(nic, user);
	case IPNUMA_FRAMES:
		return peer_frames(nic, user);
	case IPNUMA_REGION:
		return region_open(nic, user);
	case IPNUMA_WINDOW:
		return window_open(nic, user);
	case IPNUMA_MARK:
		return begin_mark(client, user);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations nic_operations = {
	.owner = THIS_MODULE,
	.open = nic_open,
	.release = nic_release,
	.read = nic_read_events,
	.poll = nic_poll,
	.unlocked_ioctl = nic_ioctl,
	.llseek = noop_llseek,
};

/* Tables that an earlier driver has left must not open memory that is somebody else's now. */
static void forget(struct nic *nic)
{
	u32 index;

	for (index = 0; index < nic->pc_ids; index++)
		nic_write(nic, PC_ID_BASE + 16 * index + 12, 0);
	for (index = 0; index < nic->sessions; index++)
		nic_write(nic, SESSION_BASE + 32 * index + 28, 0);
	for (index = 0; index < nic->keys; index++)
		nic_write(nic, REGION_BASE + 32 * index + 28, 0);
	nic_read(nic, REG_ID);
}

static int identify(struct nic *nic)
{
	u32 id, features, width;

	id = nic_read(nic, REG_ID);
	if (id != ID_VALUE) {
		dev_err(&nic->pdev->dev, "register ID is %#x, not %#x: this is no IP-NUMA NIC\n", id, ID_VALUE);
		return -ENODEV;
	}
	nic->version = nic_read(nic, REG_VERSION);
	if (nic->version >> 16 != VERSION_MAJOR) {
		dev_err(&nic->pdev->dev, "registers of version %u, but this driver knows %u: take the other's driver\n",
			nic->version >> 16, VERSION_MAJOR);
		return -ENODEV;
	}
	features = nic_read(nic, REG_FEATURES);
	width = features & 0x1F;
	nic->page_count = min_t(u64, 1ULL << width, pci_resource_len(nic->pdev, BAR_PAGES) / PAGE_BYTES);
	nic->pc_ids = min(1U << (features >> 8 & 0x1F), (u32)MOST_PEERS);
	nic->keys = min(1U << (features >> 16 & 0x1F), (u32)COMPACT_KEYS);
	nic->seals = features >> 26 & 1;
	nic->sessions = features >> 25 & 1 ? min(1U << (features >> 28), (u32)MOST_PEERS) : 0;
	if (nic->sessions < 2) {
		dev_err(&nic->pdev->dev, "the NIC was built without sessions, which this driver needs\n");
		return -ENODEV;
	}
	return 0;
}

static int begin_interrupts(struct nic *nic)
{
	struct pci_dev *pdev = nic->pdev;
	struct msi_msg message;
	int error;

	nic->vectors = pci_alloc_irq_vectors(pdev, 1, nic->poll ? 2 : 1, PCI_IRQ_MSI | PCI_IRQ_MSIX);
	if (nic->vectors < 0)
		return nic->vectors;
	error = devm_request_threaded_irq(&pdev->dev, pci_irq_vector(pdev, 0),
					  nic->vectors == 1 ? shared_interrupt : NULL, events_thread,
					  IRQF_ONESHOT | IRQF_NOBALANCING, "ipnuma-events", nic);
	if (!error && nic->vectors > 1)
		error = devm_request_irq(&pdev->dev, pci_irq_vector(pdev, 1), poll_interrupt, 0, "ipnuma-poll", nic);
	if (error)
		return error;
	/*
	 * The message of vector 0 is the NIC's own to write, and stays what it is: the vector does not wander from
	 * processor to processor. That of vector 1 the rack knows from the vector's table.
	 */
	get_cached_msi_msg(pci_irq_vector(pdev, 0), &message);
	nic_write(nic, REG_MSI_ADDRESS_LO, message.address_lo);
	nic_write(nic, REG_MSI_ADDRESS_HI, message.address_hi);
	nic_write(nic, REG_MSI_DATA, message.data);
	if (!nic->poll)
		nic_write(nic, REG_MSI_MODERATION_US, moderation_us);
	nic_write(nic, REG_MSI_CONTROL, MSI_ON_EVENT);
	return 0;
}

/* Registers, pages, and BAR 4 if this is the rack: on a board it would be something else, an MSI-X table perhaps. */
static int map_bars(struct nic *nic)
{
	static const resource_size_t least[] = { [BAR_REGISTERS] = BAR0_BYTES, [BAR_PAGES] = PAGE_BYTES };
	struct pci_dev *pdev = nic->pdev;
	bool poll = IS_ENABLED(CONFIG_UML) && pci_resource_len(pdev, BAR_POLL) >= PAGE_BYTES;
	int number, error;

	for (number = BAR_REGISTERS; number <= BAR_PAGES; number += BAR_PAGES - BAR_REGISTERS) {
		if (pci_resource_len(pdev, number) >= least[number])
			continue;
		dev_err(&pdev->dev, "BAR %d has %#llx bytes, and the NIC's has %#llx at least: see docs/architecture.md\n",
			number, (u64)pci_resource_len(pdev, number), (u64)least[number]);
		return -ENODEV;
	}
	error = pcim_iomap_regions(pdev, 1 << BAR_REGISTERS | (poll ? 1 << BAR_POLL : 0), "ipnuma");
	if (!error)
		error = pci_request_region(pdev, BAR_PAGES, "ipnuma");
	if (error)
		return error;
	nic->registers = pcim_iomap_table(pdev)[BAR_REGISTERS];
	nic->poll = poll ? pcim_iomap_table(pdev)[BAR_POLL] : NULL;
	/* A line is a transaction: write-combining. */
	nic->pages = devm_ioremap_wc(&pdev->dev, pci_resource_start(pdev, BAR_PAGES), pci_resource_len(pdev, BAR_PAGES));
	return nic->pages ? 0 : -ENOMEM;
}

static int ipnuma_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct nic *nic;
	int error;

	nic = devm_kzalloc(&pdev->dev, sizeof(*nic), GFP_KERNEL);
	if (!nic)
		return -ENOMEM;
	nic->pdev = pdev;
	nic->link_up = true;
	mutex_init(&nic->control);
	spin_lock_init(&nic->lock);
	INIT_LIST_HEAD(&nic->windows);
	INIT_LIST_HEAD(&nic->watched);
	INIT_LIST_HEAD(&nic->marks);
	INIT_LIST_HEAD(&nic->clients);
	init_waitqueue_head(&nic->flushed);
	INIT_LIST_HEAD(&nic->holding);
	nic->marks_left = FLUSH_MARKS;
	pci_set_drvdata(pdev, nic);

	error = pcim_enable_device(pdev);
	if (!error)
		error = map_bars(nic);
	if (!error)
		error = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (error)
		return error;

	mutex_lock(&nic->control);
	error = identify(nic);
	mutex_unlock(&nic->control);
	if (error)
		return error;
	nic->pages_used = devm_bitmap_zalloc(&pdev->dev, nic->page_count, GFP_KERNEL);
	nic->tags = devm_kcalloc(&pdev->dev, nic->keys, sizeof(*nic->tags), GFP_KERNEL);
	nic->owners = devm_kcalloc(&pdev->dev, nic->keys, sizeof(*nic->owners), GFP_KERNEL);
	nic->holders = devm_kcalloc(&pdev->dev, nic->keys, sizeof(*nic->holders), GFP_KERNEL);
	nic->events = dmam_alloc_coherent(&pdev->dev, EVENTS * EVENT_BYTES, &nic->events_dma, GFP_KERNEL);
	nic->misc.name = devm_kasprintf(&pdev->dev, GFP_KERNEL, "ipnuma%d", 0);
	if (!nic->pages_used || !nic->owners || !nic->tags || !nic->holders || !nic->events || !nic->misc.name)
		return -ENOMEM;

	pci_set_master(pdev);
	mutex_lock(&nic->control);
	forget(nic);
	if (nic->poll) {
		writel(0, nic->poll + POLL_DISARM_ALL);
		posted();
	}
	nic_write(nic, REG_CONTROL, CONTROL_MERGE);
	if (ack_ticks)
		nic_write(nic, REG_ACK_TICKS, ack_ticks);
	if (pace)
		nic_write(nic, REG_PACE, pace);
	error = begin_interrupts(nic);
	if (!error) {
		nic_write(nic, REG_EVENT_LOG2, 0);
		nic_write(nic, REG_EVENT_BASE_LO, lower_32_bits(nic->events_dma));
		nic_write(nic, REG_EVENT_BASE_HI, upper_32_bits(nic->events_dma));
		nic_write(nic, REG_EVENT_LOG2, EVENT_LOG2);
	}
	mutex_unlock(&nic->control);
	if (error)
		goto quiet;

	nic->misc.minor = MISC_DYNAMIC_MINOR;
	nic->misc.fops = &nic_operations;
	nic->misc.parent = &pdev->dev;
	nic->misc.mode = 0660;
	error = neighbours_begin(nic);
	if (error)
		goto quiet;
	error = misc_register(&nic->misc);
	if (error) {
		neighbours_end(nic);
		goto quiet;
	}
	dev_info(&pdev->dev, "/dev/%s: %u pages, %u regions, %u sessions; a store costs %u ns\n", nic->misc.name,
		 nic->page_count, nic->keys, nic->sessions, nic->poll ? store_ns : 0);
	return 0;
quiet:
	/* What is managed goes in the order in which it must: handlers before their vectors, and those before what they use. */
	pci_clear_master(pdev);
	return error;
}

/* Nobody has it open: open files hold the module, and unbinding is switched off. */
static void ipnuma_remove(struct pci_dev *pdev)
{
	struct nic *nic = pci_get_drvdata(pdev);
	struct mark *mark, *next;

	misc_deregister(&nic->misc);
	neighbours_end(nic);
	mutex_lock(&nic->control);
	nic_write(nic, REG_MSI_CONTROL, 0);
	nic_write(nic, REG_EVENT_LOG2, 0);
	forget(nic);
	mutex_unlock(&nic->control);
	pci_clear_master(pdev);
	devm_free_irq(&pdev->dev, pci_irq_vector(pdev, 0), nic);
	if (nic->vectors > 1)
		devm_free_irq(&pdev->dev, pci_irq_vector(pdev, 1), nic);
	pci_free_irq_vectors(pdev);
	/* Those that the NIC has not answered. */
	list_for_each_entry_safe(mark, next, &nic->marks, list)
		kfree(mark);
}

static const struct pci_device_id ipnuma_ids[] = {
	{ PCI_DEVICE(IPNUMA_VENDOR, IPNUMA_DEVICE) },
	{},
};
MODULE_DEVICE_TABLE(pci, ipnuma_ids);

static struct pci_driver ipnuma_driver = {
	.name = "ipnuma",
	.id_table = ipnuma_ids,
	.probe = ipnuma_probe,
	.remove = ipnuma_remove,
	.driver.suppress_bind_attrs = true,
};
module_pci_driver(ipnuma_driver);

MODULE_DESCRIPTION("IP-NUMA NIC");
MODULE_LICENSE("Dual MIT/GPL");
