// SPDX-License-Identifier: Apache-2.0
// Sealed sessions: seal and unseal.
-f rtl/lib/lib.f
-f rtl/crypto/crypto.f
rtl/nic/wire_pkg.sv
rtl/ipnuma/key_table.sv
rtl/ipnuma/seal.sv
rtl/ipnuma/unseal.sv
