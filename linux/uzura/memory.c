// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Protection domains, and memory that the engine may reach: its regions and the translation of their pages. */
#include <linux/bitmap.h>
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
	u32 at;

	mutex_lock(&nic->control);
	first = bitmap_find_next_zero_area(nic->table_used, TABLE_ENTRIES, 0, mr->pages, 0);
	if (first < TABLE_ENTRIES)
		bitmap_set(nic->table_used, first, mr->pages);
	mutex_unlock(&nic->control);
	if (first >= TABLE_ENTRIES)
		return -ENOSPC;
	mr->first = first;
	at = first;
	rdma_umem_for_each_dma_block(mr->umem, &block, PAGE_SIZE) {
		if (at == first + mr->pages)
			break;
		nic->table[at++] = cpu_to_le64(rdma_block_iter_dma_address(&block) | 1);
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

struct ib_mr *uzura_reg_user_mr(struct ib_pd *ib, u64 start, u64 length, u64 address, int access,
				struct ib_udata *udata)
{
	struct nic *nic = to_nic(ib->device);
	u64 words[3];
	struct mr *mr;
	int number, error;

	if (!length || address + length < address || (address ^ start) & ~PAGE_MASK)
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->umem = ib_umem_get(ib->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		error = PTR_ERR(mr->umem);
		goto out_free;
	}
	mr->pages = ib_umem_num_pages(mr->umem);
	number = region_alloc(nic);
	if (number < 0) {
		error = number;
		goto out_umem;
	}
	mr->number = number;
	error = table_fill(nic, mr);
	if (error)
		goto out_number;

	/* Another tag each time: the key of what was here before opens nothing. Who has the number has its tag. */
	mr->ib.lkey = (u32)number << 8 | ++nic->region_tags[number];
	mr->ib.rkey = mr->ib.lkey;
	mr->ib.length = length;
	words[0] = 1 | (u64)rights_of(access) << 4 | (u64)(mr->ib.lkey & 0xFF) << 8 | (u64)to_pd(ib)->number << 16 |
		   (u64)mr->first << 32;
	words[1] = address;
	words[2] = length;
	error = nic_command(nic, COMMAND_SET_REGION, number, words, ARRAY_SIZE(words));
	if (!error)
		return &mr->ib;

	table_free(nic, mr);
out_number:
	ida_free(&nic->region_numbers, mr->number);
out_umem:
	ib_umem_release(mr->umem);
out_free:
	kfree(mr);
	return ERR_PTR(error);
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
	ib_umem_release(mr->umem);
	kfree(mr);
	return 0;
}
