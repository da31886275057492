// SPDX-License-Identifier: Apache-2.0
// AES-GCM: aes_pipe and ghash.
rtl/crypto/aes_pkg.sv
rtl/crypto/gcm_pkg.sv
rtl/crypto/aes_pipe.sv
rtl/crypto/ghash.sv
