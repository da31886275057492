// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The registers of a FIBNIC switch as a file, /dev/fibnic: a place in it is the same offset of BAR 0. What is where is the
 * program's to know (crates/fib/src/device.rs); the driver knows only where words for the memories are stored, since a
 * write there may hold several.
 *
 * A guest's code takes no simulated time, so the driver charges what a store costs a processor.
 */
#include <linux/delay.h>
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#define VENDOR 0x1F3D
#define DEVICE 0x0004
#define BAR_REGISTERS 0

/* Words for the memories: each is one store of so many bytes, always to this place. */
#define STORE 0x140
#define RECORD 32

static unsigned int store_ns;
module_param(store_ns, uint, 0444);
MODULE_PARM_DESC(store_ns, "nanoseconds that a processor needs for a store of up to a line");

struct fibnic {
	struct miscdevice file;
	void __iomem *registers;
	resource_size_t bytes;
	/* One process at a time, and one access. */
	struct mutex lock;
	bool open;
	u8 *buffer;
};

/* Whether an access lies in the BAR; the buffer has a page. */
static bool inside(struct fibnic *fib, loff_t at, size_t count)
{
	return at >= 0 && count && count <= PAGE_SIZE && at < fib->bytes && count <= fib->bytes - at;
}

static struct fibnic *of(struct file *file)
{
	return container_of(file->private_data, struct fibnic, file);
}

static ssize_t fibnic_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	struct fibnic *fib = of(file);
	ssize_t done = count;

	if (!inside(fib, *at, count))
		return -EINVAL;
	mutex_lock(&fib->lock);
	memcpy_fromio(fib->buffer, fib->registers + *at, count);
	if (copy_to_user(to, fib->buffer, count))
		done = -EFAULT;
	mutex_unlock(&fib->lock);
	return done;
}

static ssize_t fibnic_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct fibnic *fib = of(file);
	size_t step = count, i;
	ssize_t done = count;

	if (*at == STORE) {
		if (!count || count > PAGE_SIZE || count % RECORD)
			return -EINVAL;
		step = RECORD;
	} else if (!inside(fib, *at, count)) {
		return -EINVAL;
	}
	mutex_lock(&fib->lock);
	if (copy_from_user(fib->buffer, from, count)) {
		done = -EFAULT;
	} else {
		for (i = 0; i < count; i += step) {
			memcpy_toio(fib->registers + *at, fib->buffer + i, step);
			/* Time must pass: the guest's bus drops what it has no room for. */
			ndelay(store_ns ? store_ns : 1);
		}
	}
	mutex_unlock(&fib->lock);
	return done;
}

static int fibnic_open(struct inode *inode, struct file *file)
{
	struct fibnic *fib = of(file);
	int err = 0;

	mutex_lock(&fib->lock);
	if (fib->open)
		err = -EBUSY;
	fib->open = true;
	mutex_unlock(&fib->lock);
	return err;
}

static int fibnic_release(struct inode *inode, struct file *file)
{
	struct fibnic *fib = of(file);

	mutex_lock(&fib->lock);
	fib->open = false;
	mutex_unlock(&fib->lock);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = fibnic_open,
	.release = fibnic_release,
	.read = fibnic_read,
	.write = fibnic_write,
};

static int fibnic_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct device *dev = &pdev->dev;
	struct fibnic *fib = devm_kzalloc(dev, sizeof(*fib), GFP_KERNEL);
	int err;

	if (!fib)
		return -ENOMEM;
	fib->buffer = devm_kmalloc(dev, PAGE_SIZE, GFP_KERNEL);
	if (!fib->buffer)
		return -ENOMEM;
	err = pcim_enable_device(pdev);
	if (!err)
		err = pcim_iomap_regions(pdev, 1 << BAR_REGISTERS, "fibnic");
	if (err)
		return err;
	fib->registers = pcim_iomap_table(pdev)[BAR_REGISTERS];
	fib->bytes = pci_resource_len(pdev, BAR_REGISTERS);
	mutex_init(&fib->lock);
	fib->file.minor = MISC_DYNAMIC_MINOR;
	fib->file.name = "fibnic";
	fib->file.mode = 0600;
	fib->file.fops = &operations;
	fib->file.parent = dev;
	pci_set_drvdata(pdev, fib);
	return misc_register(&fib->file);
}

static void fibnic_remove(struct pci_dev *pdev)
{
	struct fibnic *fib = pci_get_drvdata(pdev);

	misc_deregister(&fib->file);
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(VENDOR, DEVICE) },
	{ }
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver fibnic_driver = {
	.name = "fibnic",
	.id_table = ids,
	.probe = fibnic_probe,
	.remove = fibnic_remove,
};
module_pci_driver(fibnic_driver);

MODULE_DESCRIPTION("The registers of a FIBNIC switch");
MODULE_LICENSE("Dual MIT/GPL");
