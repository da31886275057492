// SPDX-License-Identifier: Apache-2.0
-f rtl/lib/lib.f
rtl/eth/eth_pkg.sv
rtl/eth/xgmii_rx.sv
rtl/eth/xgmii_tx.sv
rtl/eth/gmii_rx.sv
rtl/eth/gmii_tx.sv
rtl/eth/arp_responder.sv
