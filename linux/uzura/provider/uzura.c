// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * UZURA for programs that use Debian's libibverbs: every verb is a call of the kernel (linux/uzura), whose rings the engine
 * uses. A guest's program can reach no doorbell, and must not poll memory: see docs/uzura.md.
 */
#include <errno.h>
#include <stdlib.h>

#include "completions.h"
#include "pieces.h"

#define ABI 1
#define DRIVER_UNKNOWN 0
/* Of a queue, as the kernel has it, too. */
#define MOST_REQUESTS 4096

static void free_context(struct ibv_context *context)
{
	struct verbs_context *whole = verbs_get_ctx(context);

	verbs_uninit_context(whole);
	free(whole);
}

static int query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t bytes)
{
	struct ib_uverbs_ex_query_device_resp answer;
	size_t answer_bytes = sizeof(answer);

	return ibv_cmd_query_device_any(context, input, attr, bytes, &answer, &answer_bytes);
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	struct ibv_query_port command = {};

	return ibv_cmd_query_port(context, port, attr, &command, sizeof(command));
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct ibv_alloc_pd command = {};
	struct ib_uverbs_alloc_pd_resp answer = {};
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd && ibv_cmd_alloc_pd(context, pd, &command, sizeof(command), &answer, sizeof(answer))) {
		free(pd);
		return NULL;
	}
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	int error = ibv_cmd_dealloc_pd(pd);

	if (!error)
		free(pd);
	return error;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t card_address, int access)
{
	struct ibv_reg_mr command = {};
	struct ib_uverbs_reg_mr_resp answer = {};
	struct verbs_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return NULL;
	if (ibv_cmd_reg_mr(pd, address, length, card_address, access, mr, &command, sizeof(command), &answer,
			   sizeof(answer))) {
		free(mr);
		return NULL;
	}
	return &mr->mr;
}

static int dereg_mr(struct verbs_mr *mr)
{
	int error = ibv_cmd_dereg_mr(mr);

	if (!error)
		free(mr);
	return error;
}

/* Gives a queue its place in the kernel, or ends it. */
static struct ibv_cq *place_cq(struct ibv_context *context, int entries, struct ibv_comp_channel *channel, int vector,
			       struct ibv_cq *cq)
{
	struct ibv_create_cq command = {};
	struct ib_uverbs_create_cq_resp answer = {};

	if (cq && ibv_cmd_create_cq(context, entries, channel, vector, cq, &command, sizeof(command), &answer,
				    sizeof(answer))) {
		free(cq);
		return NULL;
	}
	return cq;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int entries, struct ibv_comp_channel *channel, int vector)
{
	return place_cq(context, entries, channel, vector, calloc(1, sizeof(struct ibv_cq)));
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq;

	if (!completions_are_known(attr)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	cq = completions_new(attr);
	return (struct ibv_cq_ex *)place_cq(context, attr->cqe, attr->channel, attr->comp_vector, ibv_cq_ex_to_cq(cq));
}

static int resize_cq(struct ibv_cq *cq, int entries)
{
	struct ibv_resize_cq command = {};
	struct ib_uverbs_resize_cq_resp answer = {};

	return ibv_cmd_resize_cq(cq, entries, &command, sizeof(command), &answer, sizeof(answer));
}

static int destroy_cq(struct ibv_cq *cq)
{
	int error = ibv_cmd_destroy_cq(cq);

	if (!error)
		free(cq);
	return error;
}

/*
 * The first one by itself: the kernel may wait for it. Then all that there are, as one who asks for an event before it empties
 * the queue sleeps with what is left in it; behind the first one the kernel does not wait.
 */
static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	int found = count > 0 ? ibv_cmd_poll_cq(cq, 1, wc) : 0, more;

	if (found < 1 || count == 1)
		return found;
	more = ibv_cmd_poll_cq(cq, count - 1, wc + 1);
	return more < 0 ? found : found + more;
}

static struct ibv_qp *create_pair(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, unsigned int many)
{
	struct ibv_create_qp command = {};
	struct ib_uverbs_create_qp_resp answer = {};
	struct pair *pair = pair_new(many);
	struct ibv_qp *qp;

	if (!pair)
		return NULL;
	qp = pair_qp(pair);
	if (ibv_cmd_create_qp(pd, qp, attr, &command, sizeof(command), &answer, sizeof(answer))) {
		pair_free(qp);
		return NULL;
	}
	return qp;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return create_pair(pd, attr, 0);
}

/* With operations to make piece by piece, of which as many can be posted together as the kernel's queue will have room for. */
static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_init_attr plain = {
		.qp_context = attr->qp_context, .send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq,
		.cap = attr->cap, .qp_type = attr->qp_type, .sq_sig_all = attr->sq_sig_all,
	};
	_Bool pieces = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	unsigned int many = 1;
	struct ibv_qp *qp;

	(void)context;
	if (attr->comp_mask & ~(IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	    !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || (pieces && !pieces_are_known(attr->send_ops_flags))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (plain.cap.max_send_wr > MOST_REQUESTS) {
		errno = EINVAL;
		return NULL;
	}
	while (many < plain.cap.max_send_wr)
		many *= 2;
	qp = create_pair(attr->pd, &plain, pieces ? many : 0);
	attr->cap = plain.cap;
	return qp;
}

static int query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct ibv_query_qp command = {};

	return ibv_cmd_query_qp(qp, attr, mask, init, &command, sizeof(command));
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_modify_qp command = {};

	return ibv_cmd_modify_qp(qp, attr, mask, &command, sizeof(command));
}

static int destroy_qp(struct ibv_qp *qp)
{
	int error = ibv_cmd_destroy_qp(qp);

	if (!error)
		pair_free(qp);
	return error;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_create_srq command = {};
	struct ib_uverbs_create_srq_resp answer = {};
	struct ibv_srq *srq = calloc(1, sizeof(*srq));

	if (srq && ibv_cmd_create_srq(pd, srq, attr, &command, sizeof(command), &answer, sizeof(answer))) {
		free(srq);
		return NULL;
	}
	return srq;
}

static int query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq command = {};

	return ibv_cmd_query_srq(srq, attr, &command, sizeof(command));
}

static int modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	struct ibv_modify_srq command = {};

	return ibv_cmd_modify_srq(srq, attr, mask, &command, sizeof(command));
}

static int destroy_srq(struct ibv_srq *srq)
{
	int error = ibv_cmd_destroy_srq(srq);

	if (!error)
		free(srq);
	return error;
}

static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ib_uverbs_create_ah_resp answer = {};
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	if (ah && ibv_cmd_create_ah(pd, ah, attr, &answer, sizeof(answer))) {
		free(ah);
		return NULL;
	}
	return ah;
}

static int destroy_ah(struct ibv_ah *ah)
{
	int error = ibv_cmd_destroy_ah(ah);

	if (!error)
		free(ah);
	return error;
}

/*
 * libibverbs copies as many segments as a request says, and an absurd number has it write beyond its command. What is in front of
 * such a request is posted, as verbs have it.
 */
#define POST(scope, name, type, queue) \
	scope int name(struct queue *to, struct type *first, struct type **bad) \
	{ \
		struct type *last = NULL, *one = first; \
		int error = 0; \
\
		while (one && one->num_sge >= 0 && one->num_sge <= MOST_SEGMENTS) { \
			last = one; \
			one = one->next; \
		} \
		if (last) { \
			last->next = NULL; \
			error = ibv_cmd_##name(to, first, bad); \
			last->next = one; \
		} \
		if (error || !one) \
			return error; \
		*bad = one; \
		return EINVAL; \
	}
POST(, post_send, ibv_send_wr, ibv_qp)
POST(static, post_recv, ibv_recv_wr, ibv_qp)
POST(static, post_srq_recv, ibv_recv_wr, ibv_srq)
#undef POST

#define AT(place, what) [PLACE_##place] = (void (*)(void))(what)
static const struct verbs_context_ops functions = { {
	AT(ALLOC_PD, alloc_pd),
	AT(CREATE_AH, create_ah),
	AT(CREATE_CQ, create_cq),
	AT(CREATE_CQ_EX, create_cq_ex),
	AT(CREATE_QP, create_qp),
	AT(CREATE_QP_EX, create_qp_ex),
	AT(CREATE_SRQ, create_srq),
	AT(DEALLOC_PD, dealloc_pd),
	AT(DEREG_MR, dereg_mr),
	AT(DESTROY_AH, destroy_ah),
	AT(DESTROY_CQ, destroy_cq),
	AT(DESTROY_QP, destroy_qp),
	AT(DESTROY_SRQ, destroy_srq),
	AT(FREE_CONTEXT, free_context),
	AT(MODIFY_QP, modify_qp),
	AT(MODIFY_SRQ, modify_srq),
	AT(POLL_CQ, poll_cq),
	AT(POST_RECV, post_recv),
	AT(POST_SEND, post_send),
	AT(POST_SRQ_RECV, post_srq_recv),
	AT(QUERY_DEVICE_EX, query_device),
	AT(QUERY_PORT, query_port),
	AT(QUERY_QP, query_qp),
	AT(QUERY_SRQ, query_srq),
	AT(REG_MR, reg_mr),
	AT(REQ_NOTIFY_CQ, ibv_cmd_req_notify_cq),
	AT(RESIZE_CQ, resize_cq),
} };

static struct verbs_context *alloc_context(struct ibv_device *device, int fd, void *private)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_get_context payload;
	} command = {};
	struct ib_uverbs_get_context_resp answer = {};
	struct verbs_context *context =
		_verbs_init_and_alloc_context(device, fd, sizeof(*context), NULL, DRIVER_UNKNOWN);

	(void)private;
	if (!context)
		return NULL;
	if (ibv_cmd_get_context(context, &command, sizeof(command), &answer, sizeof(answer))) {
		verbs_uninit_context(context);
		free(context);
		return NULL;
	}
	verbs_set_ops(context, &functions);
	return context;
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs)
{
	(void)sysfs;
	return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device *device)
{
	free(device);
}

static const struct verbs_match_ent matches[] = {
	{ .u.modalias = "rdma_device:*Nuzura*", .kind = VERBS_MATCH_MODALIAS },
	{},
};

static const struct verbs_device_ops driver = {
	.name = "uzura",
	.match_min_abi_version = ABI,
	.match_max_abi_version = ABI,
	.match_table = matches,
	.alloc_context = alloc_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};

static __attribute__((constructor)) void register_driver(void)
{
	verbs_register_driver_34(&driver);
}
