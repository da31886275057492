// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Parts of peers' regions: pages of BAR 2 that belong to one descriptor. */
#include <linux/anon_inodes.h>
#include <linux/bitmap.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ipnuma.h"

static bool inside(struct window *window, loff_t position, size_t bytes)
{
	return position >= 0 && position <= window->bytes && bytes <= window->bytes - position;
}

static ssize_t window_write(struct file *file, const char __user *from, size_t bytes, loff_t *position)
{
	struct window *window = file->private_data;
	size_t done = 0;
	u32 frames;

	if (!(window->rights & IPNUMA_WRITE))
		return -EACCES;
	if (!inside(window, *position, bytes))
		return -EINVAL;
	if (mutex_lock_interruptible(&window->lock))
		return -EINTR;
	if (window->unmapped) {
		mutex_unlock(&window->lock);
		return -EPIPE;
	}
	while (done < bytes) {
		size_t step = min_t(size_t, bytes - done, PAGE_BYTES);

		if (copy_from_user(window->bounce, from + done, step)) {
			mutex_unlock(&window->lock);
			return done ? done : -EFAULT;
		}
		frames = nic_store(window->nic, window->base + *position, window->bounce, step);
		atomic64_add(frames, &window->peer->frames);
		*position += step;
		done += step;
		if (signal_pending(current))
			break;
	}
	mutex_unlock(&window->lock);
	return done;
}

static ssize_t window_read(struct file *file, char __user *into, size_t bytes, loff_t *position)
{
	struct window *window = file->private_data;
	size_t done = 0;

	if (!(window->rights & IPNUMA_READ))
		return -EACCES;
	if (!inside(window, *position, bytes))
		return -EINVAL;
	if (mutex_lock_interruptible(&window->lock))
		return -EINTR;
	if (window->unmapped) {
		mutex_unlock(&window->lock);
		return -EPIPE;
	}
	while (done < bytes) {
		u64 at = window->base + *position;
		size_t step = min_t(size_t, bytes - done, LINE_BYTES - at % LINE_BYTES);

		mutex_lock(&window->nic->control);
		memcpy_fromio(window->bounce, window->nic->pages + at, step);
		mutex_unlock(&window->nic->control);
		atomic64_inc(&window->peer->frames);
		if (copy_to_user(into + done, window->bounce, step)) {
			mutex_unlock(&window->lock);
			return done ? done : -EFAULT;
		}
		*position += step;
		done += step;
		if (signal_pending(current))
			break;
	}
	mutex_unlock(&window->lock);
	return done;
}

static int window_mmap(struct file *file, struct vm_area_struct *area)
{
	struct window *window = file->private_data;

	if (area->vm_end - area->vm_start != PAGE_SIZE || area->vm_pgoff || area->vm_flags & VM_WRITE)
		return -EINVAL;
	area->vm_flags &= ~VM_MAYWRITE;
	return vm_insert_page(area, area->vm_start, virt_to_page(window->status));
}

static void write_pages(struct window *window, bool mapped, u64 first, u16 tag)
{
	u64 offset = first / PAGE_BYTES * PAGE_BYTES;
	u32 index;

	for (index = 0; index < window->count; index++, offset += PAGE_BYTES) {
		u32 dws[2] = {};

		if (mapped) {
			dws[0] = (u32)offset | tag;
			dws[1] = (u32)window->peer->session << 16 | window->key;
		}
		nic_write_entry(window->nic, PAGE_MAP_BASE, window->page + index, dws, 2);
	}
}

/* The session is about to be another peer's: what leads to it leads nowhere, and stays so. */
void windows_cut(struct nic *nic, struct peer *peer)
{
	struct window *window;

	lockdep_assert_held(&nic->control);
	list_for_each_entry(window, &nic->windows, list) {
		if (window->peer != peer || window->cut)
			continue;
		window->cut = true;
		write_pages(window, false, 0, 0);
		WRITE_ONCE(window->status->state, window->status->state | IPNUMA_STATE_LOST);
		WRITE_ONCE(window->status->faults, window->status->faults + 1);
	}
}

static void window_free(struct window *window)
{
	free_page((unsigned long)window->status);
	kfree(window->bounce);
	kfree(window);
}

/* Gives the pages back, whoever else has the descriptor: a program that a daemon has given it may keep it. */
static void unmap(struct window *window)
{
	struct nic *nic = window->nic;

	mutex_lock(&window->lock);
	if (!window->unmapped) {
		window->unmapped = true;
		mutex_lock(&nic->control);
		spin_lock_irq(&nic->lock);
		list_del(&window->list);
		spin_unlock_irq(&nic->lock);
		/* Stores before are in front of these writes on the bus. */
		write_pages(window, false, 0, 0);
		bitmap_clear(nic->pages_used, window->page, window->count);
		holder_uncharge(window->holder, window->count, 0);
		mutex_unlock(&nic->control);
	}
	mutex_unlock(&window->lock);
}

static long window_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct window *window = file->private_data;
	struct ipnuma_flush flush;

	switch (command) {
	case IPNUMA_FLUSH:
		if (copy_from_user(&flush, (void __user *)arg, sizeof(flush)))
			return -EFAULT;
		return nic_flush(window->nic, window, flush.timeout_ns);
	case IPNUMA_UNMAP:
		unmap(window);
		return 0;
	default:
		return -ENOTTY;
	}
}

static void window_close(struct window *window)
{
	unmap(window);
	window_free(window);
}

static int window_release(struct inode *inode, struct file *file)
{
	window_close(file->private_data);
	return 0;
}

static const struct file_operations window_operations = {
	.owner = THIS_MODULE,
	.read = window_read,
	.write = window_write,
	.mmap = window_mmap,
	.unlocked_ioctl = window_ioctl,
	.release = window_release,
	.llseek = no_seek_end_llseek,
};

static struct window *window_new(struct nic *nic, const struct ipnuma_window *wanted)
{
	struct window *window = kzalloc(sizeof(*window), GFP_KERNEL);

	if (!window)
		return NULL;
	window->nic = nic;
	window->key = wanted->key;
	window->rights = wanted->rights;
	window->bytes = wanted->bytes;
	mutex_init(&window->lock);
	window->bounce = kmalloc(PAGE_BYTES, GFP_KERNEL);
	window->status = (void *)get_zeroed_page(GFP_KERNEL);
	if (window->bounce && window->status)
		return window;
	window_free(window);
	return NULL;
}

/* Takes pages and maps them. */
static long map(struct window *window, const struct ipnuma_window *wanted)
{
	struct nic *nic = window->nic;
	u64 last = wanted->first + wanted->bytes - 1;
	unsigned long page;
	long error = 0;

	mutex_lock(&nic->control);
	window->count = last / PAGE_BYTES - wanted->first / PAGE_BYTES + 1;
	window->peer = peer_find(nic, wanted->peer, wanted->session);
	page = bitmap_find_next_zero_area(nic->pages_used, nic->page_count, 0, window->count, 0);
	if (!window->peer)
		error = -EHOSTUNREACH;
	else if (page >= nic->page_count)
		error = -ENOSPC;
	if (!error) {
		window->holder = holder_charge(nic, window->count, 0);
		error = PTR_ERR_OR_ZERO(window->holder);
	}
	if (!error) {
		bitmap_set(nic->pages_used, page, window->count);
		window->page = page;
		window->base = (u64)page * PAGE_BYTES + wanted->first % PAGE_BYTES;
		write_pages(window, true, wanted->first, wanted->tag);
		spin_lock_irq(&nic->lock);
		if (window->peer->lost)
			window->status->state = IPNUMA_STATE_LOST;
		list_add_tail(&window->list, &nic->windows);
		spin_unlock_irq(&nic->lock);
	}
	mutex_unlock(&nic->control);
	return error;
}

long window_open(struct nic *nic, struct ipnuma_window __user *arg)
{
	struct ipnuma_window wanted;
	struct window *window;
	struct file *file;
	long error;
	int fd;

	if (copy_from_user(&wanted, arg, sizeof(wanted)))
		return -EFAULT;
	if (wanted.reserved)
		return -EINVAL;
	/* Offsets on the wire have 32 bits. */
	if (!wanted.bytes || wanted.bytes > 1ULL << 32 || wanted.first > (1ULL << 32) - wanted.bytes)
		return -EINVAL;
	if (!wanted.tag || wanted.tag > 0xFFF || !wanted.rights || wanted.rights & ~(IPNUMA_READ | IPNUMA_WRITE))
		return -EINVAL;
	window = window_new(nic, &wanted);
	if (!window)
		return -ENOMEM;
	error = map(window, &wanted);
	if (error) {
		window_free(window);
		return error;
	}
	file = anon_inode_getfile("[ipnuma-window]", &window_operations, window, O_RDWR);
	if (IS_ERR(file)) {
		window_close(window);
		return PTR_ERR(file);
	}
	/* pwrite and pread are what it is for. */
	file->f_mode |= FMODE_PREAD | FMODE_PWRITE | FMODE_LSEEK;
	fd = get_unused_fd_flags(O_CLOEXEC);
	wanted.fd = fd;
	if (fd < 0 || copy_to_user(arg, &wanted, sizeof(wanted))) {
		if (fd >= 0)
			put_unused_fd(fd);
		fput(file); /* frees the rest */
		return fd < 0 ? fd : -EFAULT;
	}
	fd_install(fd, file);
	return 0;
}
