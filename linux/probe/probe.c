// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Driver of a PCI device that is only a test: what a driver does to a device (registers, bursts, DMA, interrupts), once
 * each, told in the kernel's log. The other end is crates/uml/tests/pci.rs.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/io-64-nonatomic-lo-hi.h>
#include <linux/irq.h>
#include <linux/module.h>
#include <linux/msi.h>
#include <linux/pci.h>

enum {
	REG_COMMAND = 0x00,	/* what the device should do next */
	REG_DMA = 0x08,		/* where it may write */
	REG_MESSAGE = 0x10,	/* address and data of vector 0, for a device that writes it itself */
	REG_VALUE = 0x20,	/* to read */
	REG_CLOCK = 0x28,	/* the guest's time */
	BURST = 0x100,
};

/* Things that drivers must not do to a device of a guest; each ends the guest. */
static int misuse;
module_param(misuse, int, 0444);
MODULE_PARM_DESC(misuse, "1: more posted writes at once than the ring has room for; 2: memset_io");

static const char pattern[100] = "a burst of a hundred bytes is one message, whatever the bus makes of it";

struct probe {
	void __iomem *bar;
	u32 *memory;
	dma_addr_t bus;
	struct completion came[2];
	u8 back[24];	/* not on the stack, which devices can't reach */
};

static irqreturn_t came(int irq, void *data)
{
	complete(data);
	return IRQ_HANDLED;
}

static u64 now(struct probe *p)
{
	return readq(p->bar + REG_CLOCK);
}

static int try_all(struct pci_dev *pdev, struct probe *p, int vectors)
{
	struct device *dev = &pdev->dev;
	struct msi_msg message;
	u64 from;
	u32 value;
	int i;

	dev_info(dev, "probe: memory at %pad, clock %llu\n", &p->bus, now(p));
	writeq(p->bus, p->bar + REG_DMA);
	get_cached_msi_msg(pci_irq_vector(pdev, 0), &message);
	writeq((u64)message.address_hi << 32 | message.address_lo, p->bar + REG_MESSAGE);
	writel(message.data, p->bar + REG_MESSAGE + 8);

	if (misuse == 1)
		for (i = 0; i < 300; i++)
			writel(i, p->bar + BURST);
	if (misuse == 2)
		memset_io(p->bar + BURST, 0, 64);

	memcpy_toio(p->bar + BURST, pattern, sizeof(pattern));
	writeb(0x5a, p->bar + BURST + 200);
	/* More than the kernel's ring has room for; it empties as time passes. */
	for (i = 0; i < 600; i++) {
		writel(i, p->bar + BURST + 256);
		if (i % 100 == 99)
			ndelay(100);
	}

	from = now(p);
	value = readl(p->bar + REG_VALUE);
	dev_info(dev, "probe: read %08x in %llu ns\n", value, now(p) - from);
	memcpy_fromio(p->back, p->bar + BURST, sizeof(p->back));
	dev_info(dev, "probe: burst read %.24s\n", p->back);

	for (i = 0; i < vectors; i++) {
		from = now(p);
		writel(1 + i, p->bar + REG_COMMAND);
		if (!wait_for_completion_timeout(&p->came[i], HZ))
			return -ETIMEDOUT;
		dev_info(dev, "probe: interrupt %d after %llu ns, memory %08x\n", i, now(p) - from,
			 READ_ONCE(p->memory[i]));
	}

	if (vectors == 1)
		return 0;
	/* Masked (only MSI-X can be here), it has to wait. */
	pci_msi_mask_irq(irq_get_irq_data(pci_irq_vector(pdev, 0)));
	writel(1, p->bar + REG_COMMAND);
	udelay(50);
	dev_info(dev, "probe: while masked %s\n", completion_done(&p->came[0]) ? "came" : "nothing");
	pci_msi_unmask_irq(irq_get_irq_data(pci_irq_vector(pdev, 0)));
	if (!wait_for_completion_timeout(&p->came[0], HZ))
		return -ETIMEDOUT;
	dev_info(dev, "probe: came when unmasked\n");
	return 0;
}

static int probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct device *dev = &pdev->dev;
	struct probe *p = devm_kzalloc(dev, sizeof(*p), GFP_KERNEL);
	int vectors, i, err;

	if (!p)
		return -ENOMEM;
	err = pcim_enable_device(pdev);
	if (!err)
		err = pcim_iomap_regions(pdev, 1, "probe");
	if (err)
		return err;
	p->bar = pcim_iomap_table(pdev)[0];
	pci_set_master(pdev);
	p->memory = dmam_alloc_coherent(dev, PAGE_SIZE, &p->bus, GFP_KERNEL);
	if (!p->memory)
		return -ENOMEM;
	vectors = pci_alloc_irq_vectors(pdev, 1, 2, PCI_IRQ_MSI | PCI_IRQ_MSIX);
	if (vectors < 0)
		return vectors;
	for (i = 0; i < vectors; i++) {
		init_completion(&p->came[i]);
		err = devm_request_irq(dev, pci_irq_vector(pdev, i), came, 0, "probe", &p->came[i]);
		if (err)
			return err;
	}
	err = try_all(pdev, p, vectors);
	dev_info(dev, "probe: %d vectors, %d\n", vectors, err);
	return err;
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE(0x1f3d, 0x00fe) }, /* MSI-X */
	{ PCI_DEVICE(0x1f3d, 0x00ff) }, /* MSI */
	{ }
};
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver probe_driver = {
	.name = "probe",
	.id_table = ids,
	.probe = probe,
};
module_pci_driver(probe_driver);

MODULE_DESCRIPTION("A PCI device that is only a test");
MODULE_LICENSE("Dual MIT/GPL");
