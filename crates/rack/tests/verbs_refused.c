// SPDX-License-Identifier: Apache-2.0
// What a program asks of a queue pair and may not have, and what it is told when something ends: one machine, no peer. Then it leaves
// with a request under way. Prints "all as verbs have it".

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #what, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

enum { BYTES = 1 << 16, GID_INDEX = 1 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static uint8_t *bytes;

static struct ibv_qp *pair(enum ibv_qp_type type, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = 256, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	CHECK(qp);
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	return qp;
}

/* The peer is this machine itself, which gets no answer from there. */
static struct ibv_ah_attr nobody(void)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = GID_INDEX, .hop_limit = 64 } };

	CHECK(!ibv_query_gid(context, 1, GID_INDEX, &attr.grh.dgid));
	return attr;
}

static int ready_to_receive(struct ibv_qp *qp, enum ibv_mtu mtu, int reads)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = 77, .max_dest_rd_atomic = reads,
		.min_rnr_timer = 1, .ah_attr = nobody(),
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int ready_to_send(struct ibv_qp *qp, int timeout, int retry, int rnr_retry, int reads)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = retry, .rnr_retry = rnr_retry, .max_rd_atomic = reads,
	};

	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int post(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t length, uint32_t key, int segments)
{
	struct ibv_sge segment = { .addr = (uintptr_t)bytes, .length = length, .lkey = key };
	struct ibv_send_wr *bad, request = {
		.sg_list = &segment, .num_sge = segments, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	if (ah) {
		request.wr.ud.ah = ah;
		request.wr.ud.remote_qpn = 77;
		request.wr.ud.remote_qkey = 1;
	}
	return ibv_post_send(qp, &request, &bad);
}

static enum ibv_wc_status completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int tries = 0; tries < 100; tries++)
		if (ibv_poll_cq(cq, 1, &wc))
			return wc.status;
	return IBV_WC_GENERAL_ERR;
}

static enum ibv_qp_state state(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	return attr.qp_state;
}

static void attributes(void)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *qp = pair(IBV_QPT_RC, cq);

	for (int mtu = 0; mtu < 10; mtu++)
		if (mtu < IBV_MTU_256 || mtu > IBV_MTU_1024)
			CHECK(ready_to_receive(qp, mtu, 1) == EINVAL);
	CHECK(ready_to_receive(qp, IBV_MTU_1024, 200) == EINVAL);
	CHECK(!ready_to_receive(qp, IBV_MTU_1024, 4));
	CHECK(ready_to_send(qp, 40, 1, 1, 1) == EINVAL);
	CHECK(ready_to_send(qp, 1, 9, 1, 1) == EINVAL);
	CHECK(ready_to_send(qp, 1, 1, 9, 1) == EINVAL);
	CHECK(ready_to_send(qp, 1, 1, 1, 100) == EINVAL);
	CHECK(!ready_to_send(qp, 1, 1, 1, 4));
	CHECK(post(qp, NULL, 1, mr->lkey, -1) == EINVAL);
	CHECK(post(qp, NULL, 1, mr->lkey, 1 << 30) == EINVAL);
	CHECK(state(qp) == IBV_QPS_RTS);
	CHECK(!post(qp, NULL, 1, mr->lkey + 1, 1));
	CHECK(completion(cq) == IBV_WC_LOC_PROT_ERR);
	CHECK(state(qp) == IBV_QPS_ERR);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
}

/* A datagram is a packet. */
static void long_datagram(struct ibv_ah *ah)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *qp = pair(IBV_QPT_UD, cq);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	CHECK(!post(qp, ah, 1024, mr->lkey, 1));
	CHECK(completion(cq) == IBV_WC_SUCCESS);
	CHECK(!post(qp, ah, 1025, mr->lkey, 1));
	CHECK(completion(cq) == IBV_WC_LOC_LEN_ERR);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
}

/* Who lets a completion queue run over is told, and its queue pairs end. */
static void overrun(struct ibv_ah *ah)
{
	/* Of fewer the ring is a page all the same. */
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_qp *qp = pair(IBV_QPT_UD, cq);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct pollfd asynchronous = { .fd = context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	for (int i = 0; i < cq->cqe; i++)
		CHECK(!post(qp, ah, 1, mr->lkey, 1));
	CHECK(!poll(&asynchronous, 1, 3));
	CHECK(state(qp) == IBV_QPS_RTS);
	/* There is room for more than was promised, but not for twice as many. */
	for (int i = 0; i <= cq->cqe; i++)
		CHECK(!post(qp, ah, 1, mr->lkey, 1));
	CHECK(poll(&asynchronous, 1, 10) == 1);
	CHECK(!ibv_get_async_event(context, &event));
	CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq);
	ibv_ack_async_event(&event);
	CHECK(state(qp) == IBV_QPS_ERR);
	for (int i = 0; i < cq->cqe; i++)
		CHECK(completion(cq) == IBV_WC_SUCCESS);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
}

/* Nothing waits for the time-out of a queue pair that is gone: 537 ms. */
static void leave_early(int reset)
{
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_qp *qp = pair(IBV_QPT_RC, cq);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	CHECK(!ready_to_receive(qp, IBV_MTU_1024, 1));
	CHECK(!ready_to_send(qp, 17, 7, 7, 1));
	CHECK(!post(qp, NULL, 1, mr->lkey, 1));
	usleep(100);
	if (reset) {
		CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		usleep(100000);
	}
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_cq(cq));
	usleep(100000);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])));
	CHECK((pd = ibv_alloc_pd(context)) && (bytes = calloc(1, BYTES)));
	CHECK((mr = ibv_reg_mr(pd, bytes, BYTES, IBV_ACCESS_LOCAL_WRITE)));
	attr = nobody();
	CHECK((ah = ibv_create_ah(pd, &attr)));
	attributes();
	long_datagram(ah);
	overrun(ah);
	leave_early(0);
	leave_early(1);
	puts("all as verbs have it");
	return 0;
}
