// SPDX-License-Identifier: Apache-2.0
// The VLAN tag: four bytes behind the MAC addresses.
//
// Latency : none, types only.
// Source  : IEEE 802.1Q clause 9.
package vlan_pkg;
  /// Tag protocol identifier of a customer VLAN.
  localparam logic [15:0] Tpid = 16'h8100;

  /// First byte on the wire on top.
  typedef struct packed {
    logic [15:0] tpid;
    logic [2:0]  priority_code;
    logic        drop_eligible;
    logic [11:0] vid;
  } tag_t;

  /// A tag of priority 0.
  function automatic tag_t plain_tag(logic [11:0] vid);
    plain_tag      = '0;
    plain_tag.tpid = Tpid;
    plain_tag.vid  = vid;
  endfunction

  /// Four lanes of a beat as bytes in the order of the wire, or back.
  function automatic logic [31:0] wire_order(logic [31:0] lanes);
    return {lanes[7:0], lanes[15:8], lanes[23:16], lanes[31:24]};
  endfunction
endpackage
