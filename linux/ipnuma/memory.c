// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory that the NIC sees in one piece, as an entry of its table describes it. The DMA API gives it: with an IOMMU or a
 * CMA area as much as there is, else what the buddy allocator has in one block. What is larger is then made, by moving
 * away what is in the way, as CMA does.
 */
#include <linux/dma-mapping.h>
#include <linux/gfp.h>
#include <linux/iommu.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/sched/signal.h>

#include "ipnuma.h"

#define BLOCK ((u64)PAGE_SIZE << (MAX_ORDER - 1))

/* Offsets in an entry have 32 bits. */
#define MOST_BYTES (1ULL << 32)

/* Ranges are made of any zone's pages; those without a kernel address (32 bits) could not be cleared as below. */
#if IS_ENABLED(CONFIG_CONTIG_ALLOC) && IS_ENABLED(CONFIG_64BIT)
#define CAN_MAKE true

/* Pages that are all there, of one zone, none of which the kernel keeps for itself. */
static bool usable(struct zone *zone, unsigned long first, unsigned long count)
{
	unsigned long pfn;

	for (pfn = first; pfn < first + count; pfn++) {
		struct page *page = pfn_to_online_page(pfn);

		if (!page || page_zone(page) != zone || PageReserved(page))
			return false;
	}
	return true;
}

/*
 * alloc_contig_pages does this, but modules cannot call it. Not of ZONE_MOVABLE: nobody could move a region. Most of what
 * could not be had once could not either a block further: the steps grow with what is wanted.
 */
static struct page *make_in(struct zone *zone, unsigned long count)
{
	unsigned long step = roundup(count / 4 + 1, MAX_ORDER_NR_PAGES);
	unsigned long pfn = roundup(zone->zone_start_pfn, MAX_ORDER_NR_PAGES);

	for (; populated_zone(zone) && pfn + count <= zone_end_pfn(zone); pfn += step) {
		if (fatal_signal_pending(current))
			return NULL;
		cond_resched();
		if (usable(zone, pfn, count) && !alloc_contig_range(pfn, pfn + count, MIGRATE_MOVABLE, GFP_KERNEL))
			return pfn_to_page(pfn);
	}
	return NULL;
}

static struct page *make(int near, unsigned long count)
{
	struct page *page = NULL;
	int pass, node, zone;

	/* The NIC's own node, then the others; DMA zones last. */
	for (pass = 0; pass < 2 && !page; pass++)
		for_each_online_node(node)
			for (zone = ZONE_NORMAL; zone >= 0 && !page && (node == near) == !pass; zone--)
				page = make_in(&NODE_DATA(node)->node_zones[zone], count);
	return page;
}

static bool make_memory(struct nic *nic, struct region *region)
{
	struct device *dev = &nic->pdev->dev;
	unsigned long count = region->bytes >> PAGE_SHIFT;
	struct page *pages = make(dev_to_node(dev), count);

	if (!pages)
		return false;
	region->memory = page_address(pages);
	memset(region->memory, 0, region->bytes);
	region->dma = dma_map_page(dev, pages, 0, region->bytes, DMA_BIDIRECTIONAL);
	if (!dma_mapping_error(dev, region->dma)) {
		/* Both sides look at it at any time: not through a bounce buffer, nor a cache that has to be told. */
		if (!dma_need_sync(dev, region->dma)) {
			region->made = pages;
			return true;
		}
		dma_unmap_page(dev, region->dma, region->bytes, DMA_BIDIRECTIONAL);
	}
	free_contig_range(page_to_pfn(pages), count);
	return false;
}

static void free_made(struct nic *nic, struct region *region)
{
	dma_unmap_page(&nic->pdev->dev, region->dma, region->bytes, DMA_BIDIRECTIONAL);
	free_contig_range(page_to_pfn(region->made), region->bytes >> PAGE_SHIFT);
}
#else
#define CAN_MAKE false

static bool make_memory(struct nic *nic, struct region *region)
{
	return false;
}

static void free_made(struct nic *nic, struct region *region)
{
}
#endif

/* Bytes of a region at most. Whether they are there in one piece is another question. */
u64 memory_most(struct nic *nic)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&nic->pdev->dev);
	bool translated = domain && domain->type & __IOMMU_DOMAIN_DMA_API;

	if (!CAN_MAKE && !translated && !IS_ENABLED(CONFIG_DMA_CMA))
		return BLOCK;
	return min_t(u64, MOST_BYTES, (u64)totalram_pages() << PAGE_SHIFT);
}

/* Zeroed. */
bool memory_alloc(struct nic *nic, struct region *region)
{
	region->memory = dma_alloc_coherent(&nic->pdev->dev, region->bytes, &region->dma, GFP_KERNEL | __GFP_NOWARN);
	return region->memory || make_memory(nic, region);
}

void memory_free(struct nic *nic, struct region *region)
{
	if (region->made)
		free_made(nic, region);
	else
		dma_free_coherent(&nic->pdev->dev, region->bytes, region->memory, region->dma);
}

/* The mapping holds the file, and the file the memory. */
int memory_map(struct nic *nic, struct region *region, struct vm_area_struct *area)
{
	unsigned long count = region->bytes >> PAGE_SHIFT, wanted = vma_pages(area);

	if (!region->made)
		return dma_mmap_coherent(&nic->pdev->dev, area, region->memory, region->dma, region->bytes);
	if (wanted > count || area->vm_pgoff > count - wanted)
		return -EINVAL;
	return remap_pfn_range(area, area->vm_start, page_to_pfn(region->made) + area->vm_pgoff, wanted << PAGE_SHIFT,
			       area->vm_page_prot);
}
