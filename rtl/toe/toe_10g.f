// SPDX-License-Identifier: Apache-2.0
// The TCP offload engine behind its 10G MAC.
-f rtl/eth/eth.f
-f rtl/toe/toe.f
rtl/toe/toe_10g.sv
