/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a provider and libibverbs tell each other, private ABI 34: that of Debian 12 (rdma-core 44), and of all versions up to
 * 56. Debian's libibverbs-dev has no header of it, so that what is needed here is declared here.
 */
#ifndef VERBS34_H
#define VERBS34_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* A provider's functions, by the places that they have in alphabetical order. */
enum place {
	PLACE_ALLOC_PD = 5,
	PLACE_CREATE_AH = 13,
	PLACE_CREATE_CQ = 15,
	PLACE_CREATE_CQ_EX = 16,
	PLACE_CREATE_QP = 19,
	PLACE_CREATE_QP_EX = 20,
	PLACE_CREATE_SRQ = 22,
	PLACE_DEALLOC_PD = 26,
	PLACE_DEREG_MR = 28,
	PLACE_DESTROY_AH = 29,
	PLACE_DESTROY_CQ = 31,
	PLACE_DESTROY_QP = 34,
	PLACE_DESTROY_SRQ = 36,
	PLACE_FREE_CONTEXT = 39,
	PLACE_MODIFY_QP = 47,
	PLACE_MODIFY_SRQ = 49,
	PLACE_POLL_CQ = 53,
	PLACE_POST_RECV = 54,
	PLACE_POST_SEND = 55,
	PLACE_POST_SRQ_RECV = 57,
	PLACE_QUERY_DEVICE_EX = 58,
	PLACE_QUERY_PORT = 60,
	PLACE_QUERY_QP = 61,
	PLACE_QUERY_SRQ = 64,
	PLACE_REG_MR = 68,
	PLACE_REQ_NOTIFY_CQ = 69,
	PLACE_RESIZE_CQ = 71,
	PLACES = 76,
};

struct verbs_context_ops {
	void (*function[PLACES])(void);
};

struct verbs_match_ent {
	void *driver_data;
	union {
		const char *modalias;
		uint64_t driver_id;
	} u;
	uint16_t vendor;
	uint16_t device;
	uint8_t kind;
};

#define VERBS_MATCH_MODALIAS 2

struct verbs_sysfs_dev;
struct verbs_device;

struct verbs_device_ops {
	const char *name;
	uint32_t match_min_abi_version;
	uint32_t match_max_abi_version;
	const struct verbs_match_ent *match_table;
	const struct verbs_device_ops **static_providers;
	_Bool (*match_device)(struct verbs_sysfs_dev *sysfs);
	struct verbs_context *(*alloc_context)(struct ibv_device *device, int fd, void *private);
	struct verbs_context *(*import_context)(struct ibv_device *device, int fd);
	struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *sysfs);
	void (*uninit_device)(struct verbs_device *device);
};

struct verbs_device {
	struct ibv_device device;
	const struct verbs_device_ops *ops;
	atomic_int references;
	void *list[2];
	struct verbs_sysfs_dev *sysfs;
	uint64_t core_support;
};

/* What libibverbs takes any queue pair for. */
struct verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex qp_ex;
	};
	uint32_t comp_mask;
	void *xrcd;
};

#define VERBS_QP_EX 2 /* comp_mask: it has functions to make requests piece by piece */

struct verbs_mr {
	struct ibv_mr mr;
	int type;
	int access;
};

/* A command to the kernel: its header, and what the kernel's own headers say. */
#define COMMAND(name) \
	struct ibv_##name { \
		struct ib_uverbs_cmd_hdr header; \
		struct ib_uverbs_##name payload; \
	}
COMMAND(alloc_pd);
COMMAND(create_cq);
COMMAND(create_qp);
COMMAND(create_srq);
COMMAND(modify_qp);
COMMAND(modify_srq);
COMMAND(query_port);
COMMAND(query_qp);
COMMAND(query_srq);
COMMAND(reg_mr);
COMMAND(resize_cq);
#undef COMMAND

void verbs_register_driver_34(const struct verbs_device_ops *ops);
void *_verbs_init_and_alloc_context(struct ibv_device *device, int fd, size_t bytes, struct verbs_context *offset,
				    uint32_t driver_id);
void verbs_uninit_context(struct verbs_context *context);
void verbs_set_ops(struct verbs_context *context, const struct verbs_context_ops *ops);

int ibv_cmd_get_context(struct verbs_context *context, void *command, size_t bytes,
			struct ib_uverbs_get_context_resp *answer, size_t answer_bytes);
int ibv_cmd_query_device_any(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			     struct ibv_device_attr_ex *attr, size_t bytes, struct ib_uverbs_ex_query_device_resp *answer,
			     size_t *answer_bytes);
int ibv_cmd_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		       struct ibv_query_port *command, size_t bytes);
int ibv_cmd_alloc_pd(struct ibv_context *context, struct ibv_pd *pd, struct ibv_alloc_pd *command, size_t bytes,
		     struct ib_uverbs_alloc_pd_resp *answer, size_t answer_bytes);
int ibv_cmd_dealloc_pd(struct ibv_pd *pd);
int ibv_cmd_reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t card_address, int access,
		   struct verbs_mr *mr, struct ibv_reg_mr *command, size_t bytes, struct ib_uverbs_reg_mr_resp *answer,
		   size_t answer_bytes);
int ibv_cmd_dereg_mr(struct verbs_mr *mr);
int ibv_cmd_create_cq(struct ibv_context *context, int entries, struct ibv_comp_channel *channel, int vector,
		      struct ibv_cq *cq, struct ibv_create_cq *command, size_t bytes,
		      struct ib_uverbs_create_cq_resp *answer, size_t answer_bytes);
int ibv_cmd_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int ibv_cmd_req_notify_cq(struct ibv_cq *cq, int solicited);
int ibv_cmd_resize_cq(struct ibv_cq *cq, int cqe, struct ibv_resize_cq *command, size_t bytes,
		      struct ib_uverbs_resize_cq_resp *answer, size_t answer_bytes);
int ibv_cmd_destroy_cq(struct ibv_cq *cq);
int ibv_cmd_create_qp(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_qp_init_attr *attr,
		      struct ibv_create_qp *command, size_t bytes, struct ib_uverbs_create_qp_resp *answer,
		      size_t answer_bytes);
int ibv_cmd_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init,
		     struct ibv_query_qp *command, size_t bytes);
int ibv_cmd_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_modify_qp *command,
		      size_t bytes);
int ibv_cmd_destroy_qp(struct ibv_qp *qp);
int ibv_cmd_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int ibv_cmd_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ibv_cmd_create_srq(struct ibv_pd *pd, struct ibv_srq *srq, struct ibv_srq_init_attr *attr,
		       struct ibv_create_srq *command, size_t bytes, struct ib_uverbs_create_srq_resp *answer,
		       size_t answer_bytes);
int ibv_cmd_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, struct ibv_query_srq *command, size_t bytes);
int ibv_cmd_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask, struct ibv_modify_srq *command,
		       size_t bytes);
int ibv_cmd_destroy_srq(struct ibv_srq *srq);
int ibv_cmd_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int ibv_cmd_create_ah(struct ibv_pd *pd, struct ibv_ah *ah, struct ibv_ah_attr *attr,
		      struct ib_uverbs_create_ah_resp *answer, size_t answer_bytes);
int ibv_cmd_destroy_ah(struct ibv_ah *ah);

#endif
