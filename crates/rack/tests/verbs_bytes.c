// SPDX-License-Identifier: Apache-2.0
/*
 * Every byte of SEND, WRITE, READ and atomics between two machines, of many lengths and alignments, over pages that lie
 * anywhere in memory; in one segment, and cut at random into several, while completion queues change their size. `verbs_bytes SEED` waits for its peer, `verbs_bytes
 * SEED HOST` goes to it; with `-s` in front what comes in goes to a shared receive queue, and completions are read piece by piece. Exits with 0 if all was right.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "verbs_peers.h"

#define BYTES (1 << 18)
#define GID_INDEX 1
#define WINDOW 8
/* Segments of what is sent and what is received. */
#define SENT 5
#define RECEIVED 4
#define RECEIVED_SHARED 3
#define CUT_TURNS 12
#define UNTOUCHED 0xA5

struct side {
	uint32_t qpn, psn, key;
	uint64_t address;
	union ibv_gid gid;
};

static struct ibv_qp *qp;
static struct ibv_srq *srq; /* none: the queue pair has a queue of its own */
static struct ibv_cq *cq;
static struct ibv_cq_ex *pieces; /* none: completions are read whole */
static struct ibv_comp_channel *channel;
static struct ibv_mr *mr;
static uint8_t *memory;
static void open_device(struct side *own, bool shared)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	CHECK(devices && devices[0]);
	context = ibv_open_device(devices[0]);
	CHECK(context);
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	memory = malloc(BYTES + 4096);
	CHECK(memory);
	memory += 3; /* no page begins with it */
	mr = ibv_reg_mr(pd, memory, BYTES, access);
	CHECK(mr);
	channel = ibv_create_comp_channel(context);
	CHECK(channel);
	if (shared) {
		struct ibv_cq_init_attr_ex cq_init = { .cqe = 2 * WINDOW, .channel = channel, .wc_flags = IBV_WC_STANDARD_FLAGS };

		pieces = ibv_create_cq_ex(context, &cq_init);
		CHECK(pieces);
		cq = ibv_cq_ex_to_cq(pieces);
	} else {
		cq = ibv_create_cq(context, 2 * WINDOW, NULL, channel, 0);
	}
	CHECK(cq);
	if (shared) {
		struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = WINDOW, .max_sge = RECEIVED_SHARED } };

		srq = ibv_create_srq(pd, &srq_init);
		CHECK(srq);
	}
	struct ibv_qp_init_attr init = {
		.srq = srq,
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = WINDOW, .max_recv_wr = WINDOW, .max_send_sge = SENT, .max_recv_sge = RECEIVED,
			 .max_inline_data = 64 },
	};
	qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access };
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	own->qpn = qp->qp_num;
	own->psn = 0xFFFFF0 + qp->qp_num; /* it wraps soon */
	own->key = mr->rkey;
	own->address = (uintptr_t)memory;
	CHECK(!ibv_query_gid(context, 1, GID_INDEX, &own->gid));
}

static void connect_qp(const struct side *own, const struct side *other)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = other->qpn,
		.rq_psn = other->psn & 0xFFFFFF,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .dgid = other->gid, .sgid_index = GID_INDEX, .hop_limit = 64 } },
	};

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = own->psn & 0xFFFFFF;
	attr.timeout = 10;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Takes one completion, if there is one: whole, or piece by piece. */
static int poll_one(struct ibv_wc *wc)
{
	struct ibv_poll_cq_attr none = {};
	int error;

	if (!pieces)
		return ibv_poll_cq(cq, 1, wc);
	error = ibv_start_poll(pieces, &none);
	if (error) {
		CHECK(error == ENOENT);
		return 0;
	}
	*wc = (struct ibv_wc){
		.wr_id = pieces->wr_id, .status = pieces->status, .opcode = ibv_wc_read_opcode(pieces),
		.byte_len = ibv_wc_read_byte_len(pieces), .wc_flags = ibv_wc_read_wc_flags(pieces),
		.qp_num = ibv_wc_read_qp_num(pieces),
	};
	wc->imm_data = ibv_wc_read_imm_data(pieces);
	CHECK(wc->qp_num == qp->qp_num);
	ibv_end_poll(pieces);
	return 1;
}

/* A program of a guest that only looks never lets time pass: it asks for an event, looks again, and sleeps. */
static struct ibv_wc completion(void)
{
	struct ibv_wc wc;
	int found;

	while (!(found = poll_one(&wc))) {
		struct ibv_cq *told;
		void *context;

		CHECK(!ibv_req_notify_cq(cq, 0));
		found = poll_one(&wc);
		if (found)
			break;
		CHECK(!ibv_get_cq_event(channel, &told, &context));
		ibv_ack_cq_events(told, 1);
	}
	CHECK(found == 1);
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "a completion says %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}

/* The queue becomes longer or shorter, with what is on its way to it and what nobody has read. */
static void resize(void)
{
	int entries = 2 * WINDOW + draw(1000);

	CHECK(!ibv_resize_cq(cq, entries));
	CHECK(cq->cqe >= entries);
}

/* What lies in several segments. */
struct list {
	struct ibv_sge parts[SENT];
	int count;
	uint32_t bytes;
};

static struct list one(uint8_t *at, uint32_t bytes)
{
	return (struct list){ .parts = { { (uintptr_t)at, bytes, mr->lkey } }, .count = 1, .bytes = bytes };
}

static void post_list(enum ibv_wr_opcode opcode, struct list *list, uint64_t remote, uint32_t key, int flags)
{
	struct ibv_send_wr *bad, wr = { .wr_id = list->bytes, .sg_list = list->parts, .num_sge = list->bytes ? list->count : 0,
					.opcode = opcode, .send_flags = flags };

	wr.imm_data = htonl(list->bytes ^ 0x12345678);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = key;
		wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 5 : 105;
		wr.wr.atomic.swap = 7;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = key;
	}
	CHECK(!ibv_post_send(qp, &wr, &bad));
}

static void post(enum ibv_wr_opcode opcode, uint8_t *at, uint32_t bytes, uint64_t remote, uint32_t key, int flags)
{
	struct list list = one(at, bytes);

	post_list(opcode, &list, remote, key, flags);
}

static void receive_list(struct list *list)
{
	struct ibv_recv_wr *bad, wr = { .wr_id = list->bytes, .sg_list = list->parts, .num_sge = list->count };

	CHECK(!(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)));
}

static void receive(uint8_t *at, uint32_t bytes)
{
	struct list list = one(at, bytes);

	receive_list(&list);
}

static const uint32_t lengths[] = { 0, 1, 7, 8, 63, 64, 65, 1000, 1024, 1025, 4096, 4097, 20000, 70001 };

/* One side of a turn: the active one sends, writes and reads; the other one looks at what came. */
static void turn(int active, uint32_t number, uint32_t bytes, const struct side *other)
{
	uint8_t *here = memory + 11 * number % 5000, *back = memory + BYTES / 2 + 7 * number % 3000;
	uint64_t there = other->address + BYTES / 2 + 13 * number % 4000;

	if (active) {
		fill(here, bytes, number);
		meet();
		post(IBV_WR_SEND_WITH_IMM, here, bytes, 0, 0, bytes <= 64 ? IBV_SEND_INLINE : 0);
		completion();
		post(IBV_WR_RDMA_WRITE, here, bytes, there, other->key, 0);
		post(IBV_WR_RDMA_READ, back, bytes, there, other->key, 0);
		completion();
		completion();
		compare(back, bytes, number, "what was written and read back");
		meet();
	} else {
		memset(memory, UNTOUCHED, BYTES);
		receive(here, bytes + 1);
		meet();
		struct ibv_wc wc = completion();
		CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == bytes);
		CHECK(wc.wc_flags & IBV_WC_WITH_IMM && ntohl(wc.imm_data) == (bytes ^ 0x12345678));
		compare(here, bytes, number, "what was sent");
		CHECK(here[bytes] == UNTOUCHED);
		meet();
		uint8_t *at = memory + BYTES / 2 + 13 * number % 4000;
		compare(at, bytes, number, "what was written");
		CHECK(at[-1] == UNTOUCHED && at[bytes] == UNTOUCHED);
	}
}

/* ---- Several segments ------------------------------------------------------------------------------------------- */

/* Bytes in up to so many segments, some empty, which lie in any order in the half of the memory that begins with `from`. */
static struct list cut(uint8_t *from, uint32_t bytes, int most)
{
	struct list list = { .count = 1 + draw(most), .bytes = bytes };
	int order[SENT];
	uint32_t left = bytes;

	for (int i = 0; i < list.count; i++) {
		int other = draw(i + 1);

		list.parts[i].lkey = mr->lkey;
		list.parts[i].length = i + 1 == list.count ? left : draw(4) ? draw(left + 1) : 0;
		left -= list.parts[i].length;
		order[i] = order[other];
		order[other] = i;
	}
	for (int i = 0; i < list.count; i++) {
		struct ibv_sge *part = &list.parts[order[i]];

		from += 1 + draw(5000);
		part->addr = (uintptr_t)from;
		from += part->length;
	}
	return list;
}

static void fill_list(const struct list *list, uint32_t number)
{
	uint32_t at = 0;

	for (int i = 0; i < list->count; i++)
		for (uint32_t j = 0; j < list->parts[i].length; j++)
			((uint8_t *)(uintptr_t)list->parts[i].addr)[j] = pattern(number, at++);
}

/* The first bytes of the list are those of the turn; they are taken away, so that the rest can be seen to be untouched. */
static void take_list(const struct list *list, uint32_t bytes, uint32_t number, const char *what)
{
	uint32_t at = 0;

	for (int i = 0; i < list->count; i++)
		for (uint32_t j = 0; j < list->parts[i].length && at < bytes; j++, at++) {
			uint8_t *byte = (uint8_t *)(uintptr_t)list->parts[i].addr + j;

			if (*byte != pattern(number, at)) {
				fprintf(stderr, "%s of %u bytes: byte %u, %u of segment %d, is %02x\n", what, bytes, at, j, i, *byte);
				exit(1);
			}
			*byte = UNTOUCHED;
		}
}

static void untouched(const uint8_t *from, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		if (from[i] != UNTOUCHED) {
			fprintf(stderr, "byte %zu of the memory was written\n", (size_t)(from + i - memory));
			exit(1);
		}
}

/* As `turn`: what is sent, read and received lies in several segments. */
static void cut_turn(int active, uint32_t number, uint32_t bytes, const struct side *other)
{
	uint32_t offset = BYTES / 2 + 13 * number % 4000;

	memset(memory, UNTOUCHED, BYTES);
	if (active) {
		struct list from = cut(memory, bytes, SENT), back = cut(memory + BYTES / 2, bytes, SENT);

		fill_list(&from, number);
		meet();
		post_list(IBV_WR_SEND_WITH_IMM, &from, 0, 0, bytes <= 64 && draw(2) ? IBV_SEND_INLINE : 0);
		completion();
		post_list(IBV_WR_RDMA_WRITE, &from, other->address + offset, other->key, 0);
		post_list(IBV_WR_RDMA_READ, &back, other->address + offset, other->key, 0);
		resize();
		completion();
		resize();
		completion();
		take_list(&back, bytes, number, "what was written and read back into segments");
		take_list(&from, bytes, number, "what was sent");
	} else {
		struct list to = cut(memory, bytes + draw(3), srq ? RECEIVED_SHARED : RECEIVED), written = one(memory + offset, bytes);

		receive_list(&to);
		meet();
		resize();
		struct ibv_wc wc = completion();
		CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == bytes);
		take_list(&to, bytes, number, "what was sent into segments");
		meet();
		take_list(&written, bytes, number, "what was written out of segments");
	}
	untouched(memory, BYTES);
	if (active)
		meet();
}

static void atomics(int active, const struct side *other)
{
	/* The engine wants multiples of 8. */
	uint64_t offset = 8 - other->address % 8, value = 100;
	uint8_t *mine = memory + 8 - (uintptr_t)memory % 8;

	if (!active) {
		memcpy(mine, &value, 8);
		meet();
		meet();
		memcpy(&value, mine, 8);
		CHECK(value == 7);
		return;
	}
	meet();
	for (int i = 0; i < 2; i++) {
		uint64_t old;

		post(i ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD, memory + 100, 8, other->address + offset,
		     other->key, 0);
		completion();
		memcpy(&old, memory + 100, 8);
		CHECK(old == (i ? 105u : 100u));
	}
	meet();
}

int main(int count, char **words)
{
	bool shared = count > 1 && !strcmp(words[1], "-s");
	struct side own = {}, other;

	words += shared;
	count -= shared;
	CHECK(count > 1);
	const char *host = count > 2 ? words[2] : NULL;
	/* Both sides draw by themselves. */
	random_state = 2 * (uint32_t)strtoull(words[1], NULL, 0) + !host + 1;
	random_state += !random_state;
	join(host);
	open_device(&own, shared);
	swap_sides(&own, &other, sizeof(own));
	connect_qp(&own, &other);
	meet();
	for (uint32_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		for (int first = 0; first < 2; first++)
			turn(first == !host, 2 * i + first, lengths[i], &other);
	for (uint32_t i = 0; i < CUT_TURNS; i++) {
		uint32_t most = i % 2 ? 100 : 40000, mine = draw(most + 1), its;

		swap_sides(&mine, &its, sizeof(mine));
		for (int first = 0; first < 2; first++)
			cut_turn(first == !host, 100 + 2 * i + first, first == !host ? mine : its, &other);
	}
	for (int first = 0; first < 2; first++)
		atomics(first == !host, &other);
	CHECK(!ibv_destroy_qp(qp) && (!srq || !ibv_destroy_srq(srq)) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) &&
	      !ibv_destroy_comp_channel(channel));
	puts("every byte was right");
	return 0;
}
