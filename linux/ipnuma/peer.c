// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Peers: who has which session, and with which keys it is sealed. */
#include <linux/capability.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "ipnuma.h"

struct peer *peer_find(struct nic *nic, u32 ip, u32 session)
{
	struct peer *peer;

	for (peer = nic->peers + 1; peer < nic->peers + MOST_PEERS; peer++)
		if (peer->valid && (peer->ip == ip || (!ip && session)) && (peer->session == session || !session))
			return peer;
	return NULL;
}

/* Stores to this peer may be lost. */
void peer_fault(struct nic *nic, struct peer *peer, u32 state)
{
	struct window *window;

	lockdep_assert_held(&nic->lock);
	list_for_each_entry(window, &nic->windows, list) {
		if (peer && window->peer != peer)
			continue;
		WRITE_ONCE(window->status->state, window->status->state | state);
		WRITE_ONCE(window->status->faults, window->status->faults + 1);
	}
}

static void write_peer(struct nic *nic, u32 session, const struct peer *peer)
{
	u32 session_entry[8] = {}, pc_entry[4] = {};

	if (peer) {
		bool outside = !peer->resolved && (peer->ip ^ nic->identity.ip) & nic->identity.netmask;
		u64 mac = outside ? nic->identity.gateway_mac : peer->mac;
		u32 port = SESSION_PORT | (u32)peer->epoch << 8 | peer->peer_session;

		session_entry[0] = peer->ip;
		session_entry[1] = mac;
		session_entry[2] = port << 16 | (u32)(mac >> 32);
		session_entry[3] = peer->start;
		session_entry[7] = SESSION_VALID | (peer->sealed ? SESSION_SEALED : 0) |
				   (u32)peer->epoch << SESSION_EPOCH_SHIFT;
		pc_entry[0] = peer->ip;
		pc_entry[1] = peer->mac;
		pc_entry[2] = (u32)UDP_PORT << 16 | (u32)(peer->mac >> 32);
		pc_entry[3] = PC_VALID | PC_SESSION | (peer->compact ? PC_COMPACT : 0);
	}
	nic_write_entry(nic, SESSION_BASE, session, session_entry, 8);
	nic_write_entry(nic, PC_ID_BASE, session, pc_entry, 4);
}

/* The ten words of the keys as they came, and what is done with them: no other copy is made. */
static void write_keys(struct nic *nic, u32 session, const u32 *words, u32 use)
{
	u32 entry = KEY_BASE + 4 * KEY_DWS * session, dw;

	lockdep_assert_held(&nic->control);
	for (dw = 0; dw < KEY_DWS - 1; dw++)
		nic_write(nic, entry + 4 * dw, dw < IPNUMA_KEY_WORDS ? words[dw] : 0);
	nic_write(nic, entry + 4 * dw, use);
}

/* Both directions under one key and salt would use the same nonces. */
static bool same_both_ways(const u32 *words)
{
	return !memcmp(words, words + 4, 16) && words[8] == words[9];
}

/* Begins, begins anew or ends a session; sealed with keys, if there are some. */
static long begin(struct nic *nic, const struct ipnuma_peer *wanted, const u32 *keys)
{
	u64 mac = wanted->mac;
	struct window *window;
	struct peer *peer;
	bool valid, same, resolved;
	long error;

	if (wanted->flags & ~(IPNUMA_PEER_VALID | IPNUMA_PEER_COMPACT) || wanted->mac >> 48 || wanted->epoch > 63 ||
	    wanted->reserved)
		return -EINVAL;
	if (!wanted->session || wanted->session >= nic->sessions || wanted->session >= nic->pc_ids)
		return -EINVAL;
	valid = wanted->flags & IPNUMA_PEER_VALID;
	if (keys && !nic->seals)
		return -EOPNOTSUPP;
	if (keys && (!valid || same_both_ways(keys)))
		return -EINVAL;
	resolved = valid && READ_ONCE(nic->interface);
	if (resolved) {
		error = neighbour_resolve(nic, wanted->ip, &mac);
		if (error)
			return error;
	}
	peer = &nic->peers[wanted->session];
	mutex_lock(&nic->control);
	same = valid && peer->ip == wanted->ip && peer->peer_session == wanted->peer_session && peer->sealed == !!keys;
	/* What is still under way to the former peer must not reach the new one, and no store that comes later. */
	if (peer->valid) {
		write_peer(nic, wanted->session, NULL);
		if (!same)
			windows_cut(nic, peer);
		nic_read(nic, REG_ID);
	}
	spin_lock_irq(&nic->lock);
	if (peer->valid && same)
		list_for_each_entry(window, &nic->windows, list)
			if (window->peer == peer)
				WRITE_ONCE(window->status->state, window->status->state & ~IPNUMA_STATE_LOST);
	*peer = (struct peer){
		.ip = wanted->ip,
		.mac = mac,
		.session = wanted->session,
		.peer_session = wanted->peer_session,
		.epoch = wanted->epoch,
		.start = wanted->start,
		.valid = valid,
		.resolved = resolved,
		.compact = wanted->flags & IPNUMA_PEER_COMPACT,
		.sealed = keys,
	};
	spin_unlock_irq(&nic->lock);
	if (keys) {
		/* Not before: who seals nothing pays nothing for it. */
		if (!nic->unseals)
			nic_write(nic, REG_CONTROL, CONTROL_MERGE | CONTROL_AUTH);
		nic->unseals = true;
		write_keys(nic, wanted->session, keys, KEY_USE_BEGIN);
	}
	if (valid)
		write_peer(nic, wanted->session, peer);
	nic_read(nic, REG_ID);
	mutex_unlock(&nic->control);
	/* It may have moved meanwhile. */
	if (resolved)
		schedule_work(&nic->follow);
	return 0;
}

/* Its frames would go where nobody is any more, or another machine: nothing is sent until the session is begun anew. */
void peer_moved(struct nic *nic, struct peer *peer)
{
	write_peer(nic, peer->session, NULL);
	nic_read(nic, REG_ID);
	spin_lock_irq(&nic->lock);
	nic_peer_lost(nic, peer);
	spin_unlock_irq(&nic->lock);
}

long peer_set(struct nic *nic, struct ipnuma_peer __user *arg)
{
	struct ipnuma_peer wanted;

	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	if (copy_from_user(&wanted, arg, sizeof(wanted)))
		return -EFAULT;
	return begin(nic, &wanted, NULL);
}

long peer_set_sealed(struct nic *nic, struct ipnuma_sealed_peer __user *arg)
{
	struct ipnuma_sealed_peer wanted;
	long error;

	BUILD_BUG_ON(sizeof(wanted.words) != 4 * IPNUMA_KEY_WORDS);
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	error = copy_from_user(&wanted, arg, sizeof(wanted)) ? -EFAULT : begin(nic, &wanted.peer, wanted.words);
	memzero_explicit(&wanted, sizeof(wanted));
	return error;
}

/* One direction's next key: docs/wire-format.md#rekeying says in which order. */
static long next_key(struct nic *nic, const struct ipnuma_keys *wanted)
{
	struct peer *peer;
	long error = 0;

	if ((wanted->use & ~1U) != KEY_USE_RECEIVE && (wanted->use & ~1U) != KEY_USE_SEND)
		return -EINVAL;
	if (!wanted->session || wanted->session >= nic->sessions || wanted->session >= nic->pc_ids)
		return -EINVAL;
	peer = &nic->peers[wanted->session];
	mutex_lock(&nic->control);
	if (!peer->valid)
		error = -EHOSTUNREACH;
	else if (!peer->sealed)
		error = -EINVAL;
	if (!error) {
		if (wanted->use & KEY_USE_SEND)
			atomic64_set(&peer->frames, 0);
		write_keys(nic, wanted->session, wanted->words, wanted->use);
		/* The other side may be told now. */
		nic_read(nic, REG_ID);
	}
	mutex_unlock(&nic->control);
	return error;
}

long peer_keys(struct nic *nic, struct ipnuma_keys __user *arg)
{
	struct ipnuma_keys wanted;
	long error;

	BUILD_BUG_ON(sizeof(wanted.words) != 4 * IPNUMA_KEY_WORDS);
	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	error = copy_from_user(&wanted, arg, sizeof(wanted)) ? -EFAULT : next_key(nic, &wanted);
	memzero_explicit(&wanted, sizeof(wanted));
	return error;
}

long peer_frames(struct nic *nic, struct ipnuma_frames __user *arg)
{
	struct ipnuma_frames answer;

	if (copy_from_user(&answer, arg, sizeof(answer)))
		return -EFAULT;
	if (answer.session >= MOST_PEERS || answer.reserved)
		return -EINVAL;
	answer.frames = atomic64_read(&nic->peers[answer.session].frames);
	return copy_to_user(arg, &answer, sizeof(answer)) ? -EFAULT : 0;
}

long peer_get(struct nic *nic, struct ipnuma_peer __user *arg)
{
	struct ipnuma_peer answer;
	struct peer *peer;

	if (copy_from_user(&answer, arg, sizeof(answer)))
		return -EFAULT;
	peer = &nic->peers[answer.session];
	mutex_lock(&nic->control);
	answer = (struct ipnuma_peer){
		.mac = peer->mac,
		.ip = peer->ip,
		.session = answer.session,
		.peer_session = peer->peer_session,
		.epoch = peer->epoch,
		.flags = (peer->valid ? IPNUMA_PEER_VALID : 0) | (peer->compact ? IPNUMA_PEER_COMPACT : 0) |
			 (peer->lost ? IPNUMA_PEER_LOST : 0) | (peer->sealed ? IPNUMA_PEER_SEALED : 0),
	};
	mutex_unlock(&nic->control);
	return copy_to_user(arg, &answer, sizeof(answer)) ? -EFAULT : 0;
}
