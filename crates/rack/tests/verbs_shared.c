// SPDX-License-Identifier: Apache-2.0
/*
 * Several queue pairs of two machines with a shared receive queue each: random messages both ways, the event of the queue's
 * limit, a queue pair that goes to error while the others go on, and what a program may have. `verbs_shared SEED` waits for its
 * peer, `verbs_shared SEED HOST` goes to it. Exits with 0 if all was right.
 */
#include <infiniband/verbs.h>

#include "verbs_peers.h"

#define GID_INDEX 1
#define PAIRS 6
#define MESSAGES 20 /* of each queue pair */
#define MOST 9000 /* bytes */
#define BUFFERS 24
#define LIMIT 5

struct side {
	uint32_t qpn[PAIRS];
	union ibv_gid gid;
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static struct ibv_srq *srq;
static struct ibv_qp *qps[PAIRS];
static struct ibv_mr *mr;
/* What is sent lies in a place of each queue pair, what comes in a buffer for each request. */
static uint8_t *sent, *buffers;
static int posted; /* buffers that nothing has come into */

static struct ibv_sge at(uint8_t *address, uint32_t bytes)
{
	return (struct ibv_sge){ (uintptr_t)address, bytes, mr->lkey };
}

/* A buffer, in up to three segments. */
static void post_buffer(uint32_t number)
{
	uint8_t *buffer = buffers + number * MOST;
	uint32_t first = draw(MOST), second = draw(MOST - first);
	struct ibv_sge parts[] = { at(buffer, first), at(buffer + first, second),
				   at(buffer + first + second, MOST - first - second) };
	struct ibv_recv_wr *bad, wr = { .wr_id = number, .sg_list = parts, .num_sge = 3 };

	CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	posted++;
}

static void open_all(struct side *own)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_srq_attr found;

	CHECK(devices && devices[0]);
	context = ibv_open_device(devices[0]);
	CHECK(context);
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	sent = malloc((PAIRS + BUFFERS) * MOST);
	CHECK(sent);
	buffers = sent + PAIRS * MOST;
	mr = ibv_reg_mr(pd, sent, (PAIRS + BUFFERS) * MOST, IBV_ACCESS_LOCAL_WRITE);
	CHECK(mr);
	channel = ibv_create_comp_channel(context);
	cq = ibv_create_cq(context, 2 * (PAIRS + BUFFERS), NULL, channel, 0);
	CHECK(channel && cq);
	struct ibv_srq_init_attr wanted = { .attr = { .max_wr = BUFFERS, .max_sge = 3 } };
	srq = ibv_create_srq(pd, &wanted);
	CHECK(srq);
	CHECK(!ibv_query_srq(srq, &found) && found.max_wr >= BUFFERS && found.max_sge >= 3 && !found.srq_limit);
	for (int i = 0; i < PAIRS; i++) {
		struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
						 .cap = { .max_send_wr = 2, .max_send_sge = 1 } };
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

		qps[i] = ibv_create_qp(pd, &init);
		CHECK(qps[i]);
		CHECK(!ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		own->qpn[i] = qps[i]->qp_num;
	}
	CHECK(!ibv_query_gid(context, 1, GID_INDEX, &own->gid));
}

static void connect_all(const struct side *other)
{
	for (int i = 0; i < PAIRS; i++) {
		struct ibv_qp_attr attr = {
			.qp_state = IBV_QPS_RTR,
			.path_mtu = IBV_MTU_1024,
			.dest_qp_num = other->qpn[i],
			.max_dest_rd_atomic = 1,
			.min_rnr_timer = 12, /* 0.64 ms: as long as software has yet to answer what is on its way */
			.ah_attr = { .is_global = 1,
				     .port_num = 1,
				     .grh = { .dgid = other->gid, .sgid_index = GID_INDEX, .hop_limit = 64 } },
		};

		CHECK(!ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
							    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
		attr.qp_state = IBV_QPS_RTS;
		attr.timeout = 10;
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 1;
		CHECK(!ibv_modify_qp(qps[i], &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
							    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
	}
}

/* Asks for an event, looks again, and sleeps. */
static struct ibv_wc completion(void)
{
	struct ibv_wc wc;
	int found;

	while (!(found = ibv_poll_cq(cq, 1, &wc))) {
		struct ibv_cq *told;
		void *ignored;

		CHECK(!ibv_req_notify_cq(cq, 0));
		found = ibv_poll_cq(cq, 1, &wc);
		if (found)
			break;
		CHECK(!ibv_get_cq_event(channel, &told, &ignored));
		ibv_ack_cq_events(told, 1);
	}
	CHECK(found == 1);
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "a completion says %s\n", ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}

static int pair_of(uint32_t qpn)
{
	int i = 0;

	while (i < PAIRS && qps[i]->qp_num != qpn)
		i++;
	CHECK(i < PAIRS);
	return i;
}

/* Both sides know what a queue pair's message says, and how long it is. */
static uint32_t turn_of(int pair, uint32_t number)
{
	return 1000 * pair + number;
}

static uint32_t length_of(int pair, uint32_t number)
{
	uint32_t turn = turn_of(pair, number);

	return pattern(turn, 1) % 4 ? (pattern(turn, 2) << 8 | pattern(turn, 3)) % MOST : pattern(turn, 2) % 65;
}

static void send_message(int pair, uint32_t number)
{
	struct ibv_sge part = at(sent + pair * MOST, length_of(pair, number));
	struct ibv_send_wr *bad, wr = { .sg_list = &part, .num_sge = 1, .opcode = IBV_WR_SEND };

	fill(sent + pair * MOST, part.length, turn_of(pair, number));
	CHECK(!ibv_post_send(qps[pair], &wr, &bad));
}

/* Checks what came; its buffer is not posted again. */
static uint32_t take_message(const struct ibv_wc *wc, uint32_t *next)
{
	int pair = pair_of(wc->qp_num);
	uint32_t number = next[pair]++;

	CHECK(wc->wr_id < BUFFERS && wc->byte_len == length_of(pair, number));
	compare(buffers + wc->wr_id * MOST, wc->byte_len, turn_of(pair, number), "what came into the shared queue");
	posted--;
	return wc->wr_id;
}

/* Messages of all queue pairs at once, both ways; buffers that were used are posted again late. */
static void exchange(void)
{
	uint32_t next[PAIRS] = {}, number[PAIRS] = {}, left = 2 * PAIRS * MESSAGES, used[BUFFERS], many = 0;

	for (int i = 0; i < PAIRS; i++)
		send_message(i, number[i]++);
	for (; left; left--) {
		struct ibv_wc wc = completion();
		int pair = pair_of(wc.qp_num);

		if (wc.opcode == IBV_WC_RECV)
			used[many++] = take_message(&wc, next);
		else if (number[pair] < MESSAGES)
			send_message(pair, number[pair]++);
		while (many && (posted < 2 || !draw(4)))
			post_buffer(used[--many]);
	}
	while (many)
		post_buffer(used[--many]);
}

static struct ibv_async_event event(enum ibv_event_type type)
{
	struct ibv_async_event event;

	CHECK(!ibv_get_async_event(context, &event));
	if (event.event_type != type) {
		fprintf(stderr, "the event is %s, not %s\n", ibv_event_type_str(event.event_type), ibv_event_type_str(type));
		exit(1);
	}
	return event;
}

/* The active side sends until the other one's buffers are fewer than its limit. */
static void limit(int active)
{
	struct ibv_srq_attr attr = { .srq_limit = LIMIT };
	uint32_t next[PAIRS] = {}, used[BUFFERS], many = 0;

	if (!active) {
		CHECK(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
		CHECK(!ibv_query_srq(srq, &attr) && attr.srq_limit == LIMIT);
	}
	meet();
	for (int i = 0; i <= BUFFERS - LIMIT; i++) {
		if (active) {
			send_message(i % PAIRS, i / PAIRS);
			completion();
		} else {
			struct ibv_wc wc = completion();

			used[many++] = take_message(&wc, next);
		}
	}
	if (!active) {
		struct ibv_async_event reached = event(IBV_EVENT_SRQ_LIMIT_REACHED);

		CHECK(reached.element.srq == srq);
		ibv_ack_async_event(&reached);
		CHECK(!ibv_query_srq(srq, &attr) && !attr.srq_limit);
		while (many)
			post_buffer(used[--many]);
	}
	meet();
}

/* The last queue pair goes to error on one side; its buffers serve the others. */
static void last_request(int active)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_qp *gone = qps[PAIRS - 1];
	struct ibv_wc wc;

	if (!active) {
		CHECK(!ibv_modify_qp(gone, &attr, IBV_QP_STATE));
		struct ibv_async_event last = event(IBV_EVENT_QP_LAST_WQE_REACHED);
		CHECK(last.element.qp == gone);
		ibv_ack_async_event(&last);
		CHECK(!ibv_poll_cq(cq, 1, &wc));
	}
	meet();
	for (int i = 0; i < BUFFERS; i++) {
		uint32_t next[PAIRS];

		for (int j = 0; j < PAIRS; j++)
			next[j] = i;
		if (active) {
			send_message(i % (PAIRS - 1), i);
			completion();
		} else {
			wc = completion();
			take_message(&wc, next);
		}
	}
	CHECK(active || !posted);
	meet();
}

/* A program may have half of the engine's shared queues; the kernel's software has more. */
static void share_of_a_program(void)
{
	struct ibv_srq_init_attr wanted = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_device_attr device;
	struct ibv_srq *more[64];
	int count = 0;

	CHECK(!ibv_query_device(context, &device));
	if (device.max_srq > 16)
		return;
	while (count < 64 && (more[count] = ibv_create_srq(pd, &wanted)))
		count++;
	CHECK(errno == ENOSPC && count == device.max_srq / 2 - 1);
	while (count)
		CHECK(!ibv_destroy_srq(more[--count]));
	/* What no queue can be: too long, of too many segments; nor is a queue of its own posted to. */
	wanted.attr.max_wr = device.max_srq_wr + 1;
	CHECK(!ibv_create_srq(pd, &wanted));
	wanted.attr = (struct ibv_srq_attr){ .max_wr = 1, .max_sge = device.max_srq_sge + 1 };
	CHECK(!ibv_create_srq(pd, &wanted));
	struct ibv_sge part = at(buffers, 1);
	struct ibv_recv_wr *bad, wr = { .sg_list = &part, .num_sge = 1 };
	CHECK(ibv_post_recv(qps[0], &wr, &bad) == EINVAL && bad == &wr);
}

int main(int count, char **words)
{
	const char *host = count > 2 ? words[2] : NULL;
	struct side own = {}, other;

	CHECK(count > 1);
	random_state = 2 * (uint32_t)strtoull(words[1], NULL, 0) + !host + 1;
	random_state += !random_state;
	join(host);
	open_all(&own);
	for (uint32_t i = 0; i < BUFFERS; i++)
		post_buffer(i);
	swap_sides(&own, &other, sizeof(own));
	connect_all(&other);
	meet();
	exchange();
	meet();
	for (int first = 0; first < 2; first++)
		limit(first == !host);
	last_request(!host);
	share_of_a_program();
	for (int i = 0; i < PAIRS; i++)
		CHECK(!ibv_destroy_qp(qps[i]));
	CHECK(!ibv_destroy_srq(srq) && !ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
	puts("every message was right");
	return 0;
}
