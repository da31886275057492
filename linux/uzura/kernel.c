// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What users in the kernel need beside what programs have, that is queue pair 1, over which managers, and with
 * them rdma_cm, speak to each other. To the engine that is a queue pair of datagrams as any other.
 */
#include <linux/dma-direct.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/uaccess.h>
#include <rdma/ib_mad.h>

#include "uzura.h"

/* The engine leaves room for a network's header in front of a datagram; that of IPv4 is in its last bytes. */
static_assert(sizeof(union rdma_network_hdr) == HEADER_BYTES);

static void header_of(struct nic *nic, union rdma_network_hdr *header, u32 from)
{
	struct iphdr *ip = (struct iphdr *)&header->roce4grh;

	memset(header, 0, sizeof(*header));
	ip->version = 4;
	ip->ihl = sizeof(*ip) / 4;
	ip->protocol = IPPROTO_UDP;
	ip->saddr = cpu_to_be32(from);
	ip->daddr = cpu_to_be32(READ_ONCE(nic->ip));
	ip->check = ip_fast_csum(ip, ip->ihl);
}

/* Managers answer to where a datagram came from, and read that in the header of its packet. */
void kernel_set_header(struct nic *nic, dma_addr_t buffer, u32 from)
{
	header_of(nic, phys_to_virt(dma_to_phys(&nic->pci->dev, buffer)), from);
}

/* Programs, too. The buffer is where the program says, in a region that has its own addresses; else it has no header. */
void user_set_header(struct nic *nic, u64 buffer, u32 from)
{
	union rdma_network_hdr header;

	header_of(nic, &header, from);
	if (copy_to_user(u64_to_user_ptr(buffer), &header, sizeof(header)))
		dev_dbg(&nic->pci->dev, "no header for a datagram at %#llx\n", buffer);
}
