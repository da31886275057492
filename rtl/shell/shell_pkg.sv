// SPDX-License-Identifier: Apache-2.0
// The functions of a NIC with several engines, and how TLPs tell them apart.
//
// Source  : PCI Express Base 2.0, 2.2.6.2 (requester ID) and 2.2.9 (completions).
package shell_pkg;
  // A shell uses its own functions only.
  // verilator lint_off UNUSEDPARAM
  /// The host's network interface, and its window to remote memory or its RDMA engine.
  localparam logic [2:0] FN_RING = 3'd0;
  localparam logic [2:0] FN_IPNUMA = 3'd1;
  localparam logic [2:0] FN_UZURA = 3'd1;

  /// BAR of a TLP that hits none.
  localparam logic [2:0] HIT_NONE = 3'd7;

  /// A tag of 8 bits. Functions that were not granted extended tags have 5, so nobody waits for this one.
  localparam logic [7:0] TAG_OF_NOBODY = 8'hFF;

  /// What the PCI Express block says of a TLP from the root complex, with its first beat. It means nothing for
  /// completions, which say themselves whose they are.
  typedef struct packed {
    logic [2:0] fn;
    logic [2:0] bar;
  } hit_t;

  /// Completions, those of locked reads among them.
  function automatic logic is_completion(logic [7:0] fmt_type);
    return fmt_type inside {8'h0A, 8'h4A, 8'h0B, 8'h4B};
  endfunction
  // verilator lint_on UNUSEDPARAM
endpackage
