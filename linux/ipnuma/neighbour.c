// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * MAC addresses from the kernel, as RDMA's connection manager takes them: the own one is that of the interface that has the
 * NIC's IP address, a peer's that of the next hop on the kernel's way to it. When a next hop gets another one, sessions over
 * it are lost: an entry of the NIC's table cannot change without beginning its session anew. Who begins it gets the new one.
 *
 * Interfaces are those of the first network namespace.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <net/arp.h>
#include <net/neighbour.h>
#include <net/netevent.h>
#include <net/route.h>

#include "ipnuma.h"

/* The kernel asks three times, a second apart, before it gives up. */
#define RESOLVE_MS 4000

/* The interface with this address, and its MAC address; 0 if there is none. */
int neighbour_own(u32 ip, u64 *mac)
{
	struct net_device *dev = ip_dev_find(&init_net, htonl(ip));
	int index = 0;

	if (!dev)
		return 0;
	if (dev->type == ARPHRD_ETHER) {
		index = dev->ifindex;
		*mac = ether_addr_to_u64(dev->dev_addr);
	}
	dev_put(dev);
	return index;
}

/* To be released. */
static struct neighbour *next_hop(struct nic *nic, u32 ip)
{
	struct flowi4 flow = {
		.daddr = htonl(ip),
		.saddr = htonl(nic->identity.ip),
		.flowi4_oif = nic->interface,
	};
	struct rtable *route = ip_route_output_key(&init_net, &flow);
	struct neighbour *hop;

	if (IS_ERR(route))
		return NULL;
	hop = dst_neigh_lookup(&route->dst, &flow.daddr);
	ip_rt_put(route);
	return hop;
}

static bool is_known(struct neighbour *hop, u64 *mac)
{
	char address[MAX_ADDR_LEN];

	if (!(READ_ONCE(hop->nud_state) & NUD_VALID) || hop->dev->type != ARPHRD_ETHER)
		return false;
	neigh_ha_snapshot(address, hop, hop->dev);
	*mac = ether_addr_to_u64((u8 *)address);
	return true;
}

/* Asks the network, if the kernel does not know. */
long neighbour_resolve(struct nic *nic, u32 ip, u64 *mac)
{
	struct neighbour *hop = next_hop(nic, ip);
	bool known;
	long left;

	if (!hop)
		return -EHOSTUNREACH;
	/* Also who is known may have to be asked again, sometime. */
	neigh_event_send(hop, NULL);
	left = wait_event_interruptible_timeout(nic->resolved,
						is_known(hop, mac) || READ_ONCE(hop->nud_state) & NUD_FAILED,
						msecs_to_jiffies(RESOLVE_MS));
	known = is_known(hop, mac);
	neigh_release(hop);
	return known ? 0 : left < 0 ? -EINTR : -EHOSTUNREACH;
}

/* What the kernel has heard meanwhile. */
static void follow(struct work_struct *work)
{
	struct nic *nic = container_of(work, struct nic, follow);
	struct peer *peer;
	u64 mac;

	mutex_lock(&nic->control);
	if (nic->interface && neighbour_own(nic->identity.ip, &mac) == nic->interface && mac != nic->identity.mac)
		nic_set_mac(nic, mac);
	for (peer = nic->peers; nic->interface && peer < nic->peers + MOST_PEERS; peer++) {
		struct neighbour *hop;

		if (!peer->valid || peer->lost)
			continue;
		hop = next_hop(nic, peer->ip);
		if (!hop)
			continue;
		if (is_known(hop, &mac) && mac != peer->mac)
			peer_moved(nic, peer);
		neigh_release(hop);
	}
	mutex_unlock(&nic->control);
}

static int heard_of_neighbour(struct notifier_block *block, unsigned long event, void *about)
{
	struct nic *nic = container_of(block, struct nic, netevents);
	struct neighbour *neighbour = about;

	if (event == NETEVENT_NEIGH_UPDATE && neighbour->tbl == &arp_tbl) {
		wake_up_all(&nic->resolved);
		schedule_work(&nic->follow);
	}
	return NOTIFY_DONE;
}

static int heard_of_interface(struct notifier_block *block, unsigned long event, void *about)
{
	struct nic *nic = container_of(block, struct nic, interfaces);

	if (event == NETDEV_CHANGEADDR)
		schedule_work(&nic->follow);
	return NOTIFY_DONE;
}

int neighbours_begin(struct nic *nic)
{
	int error;

	init_waitqueue_head(&nic->resolved);
	INIT_WORK(&nic->follow, follow);
	nic->netevents.notifier_call = heard_of_neighbour;
	nic->interfaces.notifier_call = heard_of_interface;
	error = register_netevent_notifier(&nic->netevents);
	if (error)
		return error;
	error = register_netdevice_notifier(&nic->interfaces);
	if (error)
		unregister_netevent_notifier(&nic->netevents);
	return error;
}

void neighbours_end(struct nic *nic)
{
	unregister_netdevice_notifier(&nic->interfaces);
	unregister_netevent_notifier(&nic->netevents);
	cancel_work_sync(&nic->follow);
}
