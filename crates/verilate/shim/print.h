// SPDX-License-Identifier: Apache-2.0
// Included before every source of the Verilator runtime, which is compiled with
// VL_PRINTF=ipnuma_model_printf, so that the text of a failed assertion reaches the caller.
#pragma once
#ifdef __cplusplus
extern "C"
#endif
    int ipnuma_model_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
