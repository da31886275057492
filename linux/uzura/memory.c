// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Protection domains, and memory that the engine may reach: its regions and the translation of their pages. */
#include <linux/bitmap.h>
#include <linux/dma-mapping.h>
#ifdef HAVE_RDMA_ITER_H
#include <rdma/iter.h>
#else
/* Kernels of 6.1 before stable moved it out of there. */
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#endif
#include <rdma/uverbs_ioctl.h>

#include "uzura.h"

/* The engine keeps 16 bits; 0 is nobody's. */
#define PD_NUMBERS 0xFFFF

/* Of a region, as the engine has them. */
enum page_size {
	PAGES_4K = 0,
	PAGES_1G = 3,
};
#define SHIFT_1G 30

int uzura_alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	int number = ida_alloc_range(&to_nic(ib->device)->pd_numbers, 1, PD_NUMBERS, GFP_KERNEL);

	if (number < 0)
		return number;
	to_pd(ib)->number = number;
	return 0;
}

int uzura_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	ida_free(&to_nic(ib->device)->pd_numbers, to_pd(ib)->number);
	return 0;
}

static int rights_of(int access)
{
	return (access & IB_ACCESS_LOCAL_WRITE ? RIGHT_LOCAL_WRITE : 0) |
	       (access & IB_ACCESS_REMOTE_WRITE ? RIGHT_REMOTE_WRITE : 0) |
	       (access & IB_ACCESS_REMOTE_READ ? RIGHT_REMOTE_READ : 0) |
	       (access & IB_ACCESS_REMOTE_ATOMIC ? RIGHT_REMOTE_ATOMIC : 0);
}

/* Takes places in the translation table for a region's pages and fills them. */
static int table_fill(struct nic *nic, struct mr *mr)
{
	struct ib_block_iter block;
	unsigned long first;
	u32 i = 0;

	mutex_lock(&nic->control);
	first = bitmap_find_next_zero_area(nic->table_used, TABLE_ENTRIES, 0, mr->pages, 0);
	if (first < TABLE_ENTRIES)
		bitmap_set(nic->table_used, first, mr->pages);
	mutex_unlock(&nic->control);
	if (first >= TABLE_ENTRIES)
		return -ENOSPC;
	mr->first = first;
	if (mr->umem) {
		rdma_umem_for_each_dma_block(mr->umem, &block, PAGE_SIZE) {
			if (i == mr->pages)
				break;
			nic->table[first + i++] = cpu_to_le64(rdma_block_iter_dma_address(&block) | 1);
		}
	} else {
		for (; i < mr->pages; i++)
			nic->table[first + i] = cpu_to_le64((u64)i << SHIFT_1G | 1);
	}
	dma_wmb();
	return 0;
}

static void table_free(struct nic *nic, struct mr *mr)
{
	memset(&nic->table[mr->first], 0, mr->pages * sizeof(*nic->table));
	mutex_lock(&nic->control);
	bitmap_clear(nic->table_used, mr->first, mr->pages);
	mutex_unlock(&nic->control);
}

/* Goes around, so that a number, and with it a key, comes again as late as can be. */
static int region_alloc(struct nic *nic)
{
	/* Region 0 is left out: a key of 0 is nobody's. */
	int from = 1 + (u32)atomic_inc_return(&nic->regions_given) % (REGIONS - 1);
	int number = ida_alloc_range(&nic->region_numbers, from, REGIONS - 1, GFP_KERNEL);

	return number == -ENOSPC ? ida_alloc_range(&nic->region_numbers, 1, REGIONS - 1, GFP_KERNEL) : number;
}

/* Gives a region its number and key, and the engine what it has to know of it. Its pages are in the table. */
static int region_begin(struct nic *nic, struct mr *mr, struct ib_pd *pd, int access, u64 address, u64 length)
{
	enum page_size size = mr->umem ? PAGES_4K : PAGES_1G;
	u64 words[3];

	/* Another tag each time: the key of what was here before opens nothing. Who has the number has its tag. */
	mr->ib.lkey = mr->number << 8 | ++nic->region_tags[mr->number];
	mr->ib.rkey = mr->ib.lkey;
	mr->ib.length = length;
	words[0] = 1 | (u64)size << 2 | (u64)rights_of(access) << 4 | (u64)(mr->ib.lkey & 0xFF) << 8 |
		   (u64)to_pd(pd)->number << 16 | (u64)mr->first << 32;
	words[1] = address;
	words[2] = length;
	return nic_command(nic, COMMAND_SET_REGION, mr->number, words, ARRAY_SIZE(words));
}

static struct ib_mr *region_make(struct mr *mr, struct ib_pd *pd, int access, u64 address, u64 length)
{
	struct nic *nic = to_nic(pd->device);
	int error, number = region_alloc(nic);

	if (number < 0) {
		error = number;
		goto out_free;
	}
	mr->number = number;
	error = table_fill(nic, mr);
	if (error)
		goto out_number;
	error = region_begin(nic, mr, pd, access, address, length);
	if (!error)
		return &mr->ib;

	table_free(nic, mr);
out_number:
	ida_free(&nic->region_numbers, mr->number);
out_free:
	if (mr->umem)
		ib_umem_release(mr->umem);
	kfree(mr);
	return ERR_PTR(error);
}

struct ib_mr *uzura_reg_user_mr(struct ib_pd *ib, u64 start, u64 length, u64 address, int access,
				struct ib_udata *udata)
{
	struct mr *mr;
	int error;

	if (!length || address + length < address || (address ^ start) & ~PAGE_MASK)
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->umem = ib_umem_get(ib->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		error = PTR_ERR(mr->umem);
		kfree(mr);
		return ERR_PTR(error);
	}
	mr->pages = ib_umem_num_pages(mr->umem);
	return region_make(mr, ib, access, address, length);
}

/* All memory by the addresses that devices have for it, in pages of 1 GB. */
struct ib_mr *uzura_get_dma_mr(struct ib_pd *ib, int access)
{
	struct mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->pages = (dma_get_required_mask(&to_nic(ib->device)->pci->dev) >> SHIFT_1G) + 1;
	return region_make(mr, ib, access, 0, (u64)mr->pages << SHIFT_1G);
}

int uzura_dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	struct mr *mr = to_mr(ib);
	const u64 words[3] = {};
	int error;

	/* Behind these nothing of the engine uses the region, or remembers where its pages were. */
	error = nic_command(nic, COMMAND_SET_REGION, mr->number, words, ARRAY_SIZE(words));
	if (!error)
		error = nic_command(nic, COMMAND_FLUSH, 0, NULL, 0);
	if (error)
		return error;
	table_free(nic, mr);
	ida_free(&nic->region_numbers, mr->number);
	if (mr->umem)
		ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}
