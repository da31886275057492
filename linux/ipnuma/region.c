// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Own memory: given out, shared with peers, and watched for what they write. */
#include <linux/anon_inodes.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ipnuma.h"

/* Without an entry the region is revoked: its tag stays, so that who does not know yet is refused and not taken for a forger. */
static void write_region(struct nic *nic, u32 key, const u32 *dws)
{
	u32 none[8] = { [6] = nic->tags[key] };

	if (dws)
		nic->tags[key] = dws[6];
	nic_write_entry(nic, REGION_BASE, key, dws ? dws : none, 8);
	/* A read comes back when the change holds. */
	nic_read(nic, REG_ID);
}

/* The pages from the first on, as a power of two: it may be told of writes to what follows the region, too. */
static u64 watch_value(struct region *region)
{
	return region->dma | region->order;
}

/* From now on the next write to the region is told of. */
static void watch(struct region *region)
{
	struct nic *nic = region->nic;
	bool watched;

	spin_lock_irq(&nic->lock);
	watched = region->watched;
	if (!watched) {
		region->watched = true;
		list_add_tail(&region->watch, &nic->watched);
	}
	spin_unlock_irq(&nic->lock);
	/* Who finds it watched waits, without BAR 4, until the NIC interrupts: another may only just be about to say so. */
	if (!nic->poll)
		nic_arrivals(nic);
	else if (!watched)
		nic_poll_write(nic, POLL_ARM, watch_value(region));
}

/*
 * Something that is watched was written; what, the device does not say. All who watch look, and watch again: to be woken
 * for nothing takes no simulated time. Returns whether anybody watched.
 */
bool regions_fire(struct nic *nic)
{
	struct region *region, *next;
	unsigned long flags;
	bool watched;

	spin_lock_irqsave(&nic->lock, flags);
	watched = !list_empty(&nic->watched);
	list_for_each_entry_safe(region, next, &nic->watched, watch) {
		list_del_init(&region->watch);
		region->watched = false;
		if (region->wanted)
			region->signals++;
		wake_up_interruptible_poll(&region->queue, EPOLLIN | EPOLLRDNORM);
	}
	spin_unlock_irqrestore(&nic->lock, flags);
	return watched;
}

static long region_export(struct region *region, struct ipnuma_export __user *arg)
{
	struct nic *nic = region->nic;
	struct ipnuma_export export;
	struct holder *holder;
	u32 dws[8], step, key = 0;

	if (copy_from_user(&export, arg, sizeof(export)))
		return -EFAULT;
	if (!export.bytes || export.bytes > region->bytes || export.first > region->bytes - export.bytes)
		return -EINVAL;
	if (export.first % 4 || export.bytes % 4 || export.flags & ~IPNUMA_EXPORT_SEALED ||
	    export.reserved || export.session >= nic->sessions)
		return -EINVAL;
	if (!export.tag || export.tag > 0xFFF || !export.rights || export.rights & ~(IPNUMA_READ | IPNUMA_WRITE))
		return -EINVAL;
	mutex_lock(&nic->control);
	/*
	 * Key 0 stays unused: it is what a forgotten field has. Keys are used again as late as possible: a frame with an
	 * old tag is not refused but looks corrupted, and costs the session.
	 */
	for (step = 1; step <= nic->keys && !key; step++) {
		u32 candidate = (nic->last_key + step) % nic->keys;

		if (candidate && !nic->owners[candidate])
			key = candidate;
	}
	if (!key) {
		mutex_unlock(&nic->control);
		return -ENOSPC;
	}
	holder = holder_charge(nic, 0, 1);
	if (IS_ERR(holder)) {
		mutex_unlock(&nic->control);
		return PTR_ERR(holder);
	}
	nic->last_key = key;
	nic->owners[key] = region;
	nic->holders[key] = holder;
	dws[0] = lower_32_bits(region->dma);
	dws[1] = upper_32_bits(region->dma);
	dws[2] = export.first;
	dws[3] = export.first + export.bytes - 1;
	dws[4] = export.peer;
	dws[5] = export.peer ? ~0U : 0;
	dws[6] = export.tag;
	dws[7] = REGION_VALID | REGION_SESSION | (export.rights & IPNUMA_READ ? REGION_READ : 0) |
		 (export.rights & IPNUMA_WRITE ? REGION_WRITE : 0) | (nic->poll ? 0 : REGION_NOTIFY) |
		 (export.flags & IPNUMA_EXPORT_SEALED ? REGION_SEALED : 0) |
		 (export.session ? REGION_BOUND | export.session << REGION_NUMBER_SHIFT : 0);
	write_region(nic, key, dws);
	mutex_unlock(&nic->control);
	/* Who cannot be told the key cannot use it; the entry goes with the region. */
	return put_user((u16)key, &arg->key);
}

/* Nobody may use the region by this key any more. */
static void take_back(struct nic *nic, u32 key)
{
	write_region(nic, key, NULL);
	nic->owners[key] = NULL;
	holder_uncharge(nic->holders[key], 0, 1);
	nic->holders[key] = NULL;
}

static long region_revoke(struct region *region, u32 __user *arg)
{
	struct nic *nic = region->nic;
	long error = 0;
	u32 key;

	if (get_user(key, arg))
		return -EFAULT;
	mutex_lock(&nic->control);
	if (key < nic->keys && nic->owners[key] == region)
		take_back(nic, key);
	else
		error = -EACCES;
	mutex_unlock(&nic->control);
	return error;
}

static long region_arm(struct region *region, u32 __user *arg)
{
	u32 armed;

	if (get_user(armed, arg))
		return -EFAULT;
	spin_lock_irq(&region->nic->lock);
	region->wanted = armed;
	spin_unlock_irq(&region->nic->lock);
	if (armed)
		watch(region);
	return 0;
}

static bool changed(struct region *region, const u64 *word, u64 seen)
{
	return READ_ONCE(*word) != seen || !READ_ONCE(region->watched);
}

static long region_wait(struct region *region, struct ipnuma_wait __user *arg)
{
	struct ipnuma_wait wait;
	u64 begin = 0, gone;
	const u64 *word;
	long error;

	if (copy_from_user(&wait, arg, sizeof(wait)))
		return -EFAULT;
	if (wait.offset % 8 || wait.offset > region->bytes - 8)
		return -EINVAL;
	word = region->memory + wait.offset;
	if (wait.timeout_ns >= 0)
		begin = nic_clock();
	for (;;) {
		watch(region);
		if (READ_ONCE(*word) != wait.seen)
			return 0;
		if (wait.timeout_ns < 0) {
			error = wait_event_interruptible(region->queue, changed(region, word, wait.seen));
		} else {
			gone = nic_clock() - begin;
			if (gone >= wait.timeout_ns)
				return -ETIMEDOUT;
			error = wait_event_interruptible_hrtimeout(region->queue, changed(region, word, wait.seen),
								   ns_to_ktime(wait.timeout_ns - gone));
		}
		if (READ_ONCE(*word) != wait.seen)
			return 0;
		if (error == -ETIME)
			return -ETIMEDOUT;
		if (error)
			return -EINTR;
	}
}

static long region_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct region *region = file->private_data;
	void __user *user = (void __user *)arg;

	switch (command) {
	case IPNUMA_EXPORT:
		return region_export(region, user);
	case IPNUMA_REVOKE:
		return region_revoke(region, user);
	case IPNUMA_ARM:
		return region_arm(region, user);
	case IPNUMA_WAIT:
		return region_wait(region, user);
	case IPNUMA_BYTES:
		return put_user((u64)region->bytes, (u64 __user *)user);
	default:
		return -ENOTTY;
	}
}

static __poll_t region_poll(struct file *file, poll_table *table)
{
	struct region *region = file->private_data;

	poll_wait(file, &region->queue, table);
	return READ_ONCE(region->signals) ? EPOLLIN | EPOLLRDNORM : 0;
}

/* As an eventfd: the count since the last read, in 8 bytes. */
static ssize_t region_read(struct file *file, char __user *into, size_t bytes, loff_t *position)
{
	struct region *region = file->private_data;
	u64 signals;

	if (bytes < sizeof(signals))
		return -EINVAL;
	spin_lock_irq(&region->nic->lock);
	signals = region->signals;
	region->signals = 0;
	spin_unlock_irq(&region->nic->lock);
	if (!signals)
		return -EAGAIN;
	return copy_to_user(into, &signals, sizeof(signals)) ? -EFAULT : sizeof(signals);
}

/* As an eventfd: who shares the region wakes who sleeps on it. */
static ssize_t region_write(struct file *file, const char __user *from, size_t bytes, loff_t *position)
{
	struct region *region = file->private_data;
	u64 signals;

	if (bytes < sizeof(signals))
		return -EINVAL;
	if (copy_from_user(&signals, from, sizeof(signals)))
		return -EFAULT;
	spin_lock_irq(&region->nic->lock);
	region->signals += signals;
	wake_up_interruptible_poll(&region->queue, EPOLLIN | EPOLLRDNORM);
	spin_unlock_irq(&region->nic->lock);
	return sizeof(signals);
}

static int region_mmap(struct file *file, struct vm_area_struct *area)
{
	struct region *region = file->private_data;

	if (!(area->vm_flags & VM_SHARED))
		return -EINVAL;
	/* It checks the range. */
	return memory_map(region->nic, region, area);
}

/* It cannot be paged out: counted as memory that verbs pin, against RLIMIT_MEMLOCK. */
static bool pin(struct region *region)
{
	unsigned long pages = region->bytes >> PAGE_SHIFT;

	region->mm = current->mm;
	if (atomic64_add_return(pages, &region->mm->pinned_vm) > rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT &&
	    !capable(CAP_IPC_LOCK)) {
		atomic64_sub(pages, &region->mm->pinned_vm);
		return false;
	}
	mmgrab(region->mm);
	return true;
}

static void unpin(struct region *region)
{
	atomic64_sub(region->bytes >> PAGE_SHIFT, &region->mm->pinned_vm);
	mmdrop(region->mm);
}

static void region_free(struct region *region)
{
	memory_free(region->nic, region);
	unpin(region);
	kfree(region);
}

static int region_release(struct inode *inode, struct file *file)
{
	struct region *region = file->private_data;
	struct nic *nic = region->nic;
	bool watched;
	u32 key;

	/* The NIC must stop to write before the memory goes. */
	mutex_lock(&nic->control);
	for (key = 0; key < nic->keys; key++)
		if (nic->owners[key] == region)
			take_back(nic, key);
	mutex_unlock(&nic->control);
	spin_lock_irq(&nic->lock);
	watched = region->watched;
	list_del_init(&region->watch);
	spin_unlock_irq(&nic->lock);
	if (watched && nic->poll)
		nic_poll_write(nic, POLL_DISARM, watch_value(region));
	region_free(region);
	return 0;
}

static const struct file_operations region_operations = {
	.owner = THIS_MODULE,
	.read = region_read,
	.write = region_write,
	.poll = region_poll,
	.mmap = region_mmap,
	.unlocked_ioctl = region_ioctl,
	.release = region_release,
	.llseek = noop_llseek,
};

long region_open(struct nic *nic, struct ipnuma_region __user *arg)
{
	struct ipnuma_region wanted;
	struct region *region;
	struct file *file;
	int fd;

	if (copy_from_user(&wanted, arg, sizeof(wanted)))
		return -EFAULT;
	if (!wanted.bytes || wanted.reserved)
		return -EINVAL;
	if (wanted.bytes > memory_most(nic))
		return -ENOMEM;
	region = kzalloc(sizeof(*region), GFP_KERNEL);
	if (!region)
		return -ENOMEM;
	region->nic = nic;
	region->bytes = PAGE_ALIGN(wanted.bytes);
	region->order = get_order(region->bytes);
	INIT_LIST_HEAD(&region->watch);
	init_waitqueue_head(&region->queue);
	/* Counted before it is there: who may not have it moves nobody's pages about. */
	if (!pin(region)) {
		kfree(region);
		return -ENOMEM;
	}
	if (!memory_alloc(nic, region)) {
		unpin(region);
		kfree(region);
		return -ENOMEM;
	}
	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		goto no_descriptor;
	file = anon_inode_getfile("[ipnuma-region]", &region_operations, region, O_RDWR | O_NONBLOCK);
	if (IS_ERR(file)) {
		put_unused_fd(fd);
		fd = PTR_ERR(file);
		goto no_descriptor;
	}
	mutex_lock(&nic->control);
	wanted.id = ++nic->last_region;
	mutex_unlock(&nic->control);
	wanted.bytes = region->bytes;
	wanted.fd = fd;
	if (copy_to_user(arg, &wanted, sizeof(wanted))) {
		put_unused_fd(fd);
		fput(file); /* frees the rest */
		return -EFAULT;
	}
	fd_install(fd, file);
	return 0;
no_descriptor:
	region_free(region);
	return fd;
}
