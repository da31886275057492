// SPDX-License-Identifier: Apache-2.0
// The switch's access list and VLAN stages.
-f rtl/lib/lib.f
-f rtl/eth/eth.f
rtl/fibnic/fib_pkg.sv
rtl/fibnic/fibnic_pkg.sv
rtl/fibnic/fib_valid.sv
rtl/fibnic/acl_pkg.sv
rtl/fibnic/acl_column.sv
rtl/fibnic/acl.sv
rtl/fibnic/vlan_pkg.sv
rtl/fibnic/vlan_untag.sv
rtl/fibnic/vlan_tag.sv
