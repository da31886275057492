// SPDX-License-Identifier: Apache-2.0
// The register bus: one DW access at a time, from the completer to whatever answers an address of
// BAR 0.

package reg_bus_pkg;

  // Held, with valid, until the answer.
  typedef struct packed {
    logic        valid;
    logic        write;
    logic [22:0] addr;   // byte offset in BAR 0; bits 1:0 are zero
    logic [31:0] wdata;  // byte 0 of the DW in [7:0]
  } reg_req_t;

  typedef struct packed {
    logic        done;   // one cycle; the access has taken effect
    // With done: 0 if refused (nothing changed, rdata is 0), or not answered (rdata is all ones).
    logic        ok;
    logic [31:0] rdata;  // with done, of a read
  } reg_rsp_t;

endpackage
