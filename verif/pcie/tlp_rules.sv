// SPDX-License-Identifier: Apache-2.0
// What PCI Express asks of the TLPs that an endpoint sends: bound to streams in simulation, proved for their sources.
//
// One TLP is what lies between two tlasts, and it is as long as its header says. What it writes or completes is within
// the maximum payload, what it reads within the maximum read request, and no request crosses 4 KB. Byte enables are
// legal. A completion that leaves bytes to others stops at a boundary; no completion has more DWs than its bytes need.
// What is offered is not changed or taken back.
//
// Latency : none; it only looks.
// Clock   : clk_i.
// Source  : PCI Express Base 2.0, 2.2 and 2.3.1.1; rtl/lib/axis_if.sv.
module tlp_rules
  import ipnuma_pkg::*;
  import tlp_pkg::*;
  import pcie_pkg::*;
#(
  /// Bytes at whose multiples a completion may be cut. 128 is an endpoint's own; one that passes on what others'
  /// root complexes have cut has theirs.
  parameter int unsigned BoundaryBytes = ROOT_BOUNDARY_BYTES,
  /// A memory request is offered only in a cycle with bus-master enable or right after one. Behind an arbiter it
  /// may have waited.
  parameter bit AtSource = 1'b0
) (
  input logic             clk_i,
  input logic             rst_i,
  input pcie_cfg_t        cfg_i,
  input logic      [63:0] tdata_i,
  input logic      [ 7:0] tkeep_i,
  input logic             tvalid_i,
  input logic             tready_i,
  input logic             tlast_i
);
  // ---- Where it is in the TLP ----------------------------------------------------------------------
  logic started_q, first_q, second_q, fire;
  logic [10:0] left_q, left, total;  // DWs from this beat on
  tlp_start_t start_q, start, now;

  assign fire  = tvalid_i && tready_i;
  assign now   = parse_start(tdata_i);
  assign start = first_q ? now : start_q;
  assign total = 11'd3 + 11'(now.fmt_type[5]) + (now.fmt_type[6] ? 11'(now.length) : 11'd0);
  assign left  = first_q ? total : left_q;

  initial started_q = 1'b0;

  always_ff @(posedge clk_i) begin
    if (rst_i) begin
      started_q <= 1'b1;
      first_q   <= 1'b1;
      second_q  <= 1'b0;
    end else if (fire) begin
      first_q  <= tlast_i;
      second_q <= first_q;
      left_q   <= left - 11'd2;
      if (first_q) start_q <= now;
    end
  end

  // ---- What it is ----------------------------------------------------------------------------------
  logic is_read, is_write, is_completion, has_data, four_dw;
  logic [ 2:0] status;
  logic [11:0] byte_count;
  logic [ 6:0] lower;
  logic [31:0] address;
  logic [63:0] whole_address;
  logic [13:0] carried;

  assign is_read       = start.fmt_type inside {TLP_MRD32, TLP_MRD64};
  assign is_write      = start.fmt_type inside {TLP_MWR32, TLP_MWR64};
  assign is_completion = start.fmt_type inside {TLP_CPL, TLP_CPLD, TLP_CPLLK};
  assign has_data      = start.fmt_type[6];
  assign four_dw       = start.fmt_type[5];
  // In beat 1.
  assign whole_address = {big_endian(tdata_i[31:0]), big_endian(tdata_i[63:32])};
  assign address       = four_dw ? whole_address[31:0] : whole_address[63:32];
  assign lower         = tdata_i[30:24];
  assign status        = start.low[15:13];
  assign byte_count    = start.low[11:0];
  assign carried       = 14'({start.length, 2'b00}) - 14'(lower[1:0]);

  // ---- What was offered in the cycle before ----------------------------------------------------------
  logic waits_q, last_q, master_q;
  logic [63:0] data_q;
  logic [ 7:0] keep_q;

  always_ff @(posedge clk_i) begin
    waits_q  <= tvalid_i && !tready_i && !rst_i;
    data_q   <= tdata_i;
    keep_q   <= tkeep_i;
    last_q   <= tlast_i;
    master_q <= cfg_i.bus_master;
  end

  // ---- Rules -----------------------------------------------------------------------------------------
  always_ff @(posedge clk_i) begin
    if (started_q && !rst_i) begin
      if (waits_q) begin
        a_kept :
        assert (tvalid_i && tdata_i == data_q && tkeep_i == keep_q && tlast_i == last_q)
        else $error("tlp_rules: what was offered was changed or taken back");
      end
      if (tvalid_i) begin
        a_keep :
        assert (tkeep_i == ((left == 11'd1) ? 8'h0F : 8'hFF))
        else $error("tlp_rules: tkeep does not fit the header");
        a_end :
        assert (tlast_i == (left <= 11'd2))
        else $error("tlp_rules: a TLP is not as long as its header says");
      end
      if (tvalid_i && first_q) begin
        a_kind :
        assert (is_read || is_write || is_completion)
        else $error("tlp_rules: a TLP that no endpoint of ours sends");
        a_plain :
        assert (!start.td && !start.ep)
        else $error("tlp_rules: a digest, or poisoned data");
        if (has_data) begin
          a_payload :
          assert (start.length != '0 && 11'(start.length) <= 11'd32 << cfg_i.max_payload)
          else $error("tlp_rules: more than the maximum payload");
        end
        if (is_read) begin
          a_read :
          assert (start.length != '0 && 11'(start.length) <= 11'd32 << cfg_i.max_read)
          else $error("tlp_rules: more than the maximum read request");
        end
        if (AtSource && !is_completion && !waits_q) begin
          a_master :
          assert (cfg_i.bus_master || master_q)
          else $error("tlp_rules: a memory request without bus-master enable");
        end
        if (is_completion) begin
          a_status :
          assert (status == CPL_SC ? has_data : status inside {CPL_UR, CPL_CA})
          else $error("tlp_rules: a status that does not fit the data");
          a_no_length :
          assert (has_data || start.length == '0)
          else $error("tlp_rules: a length without data");
        end
      end
      if (tvalid_i && second_q && !is_completion) begin
        a_page :
        assert (11'(address[11:2]) + 11'(start.length) <= 11'd1024)
        else $error("tlp_rules: a request crosses 4 KB");
        a_aligned :
        assert (address[1:0] == '0)
        else $error("tlp_rules: an address that is not DW aligned");
        a_wide :
        assert (!four_dw || whole_address[63:32] != '0)
        else $error("tlp_rules: 64 bits of address where 32 do");
        a_enables :
        assert (enables_legal(start.length, start.low[3:0], start.low[7:4], address[2]))
        else $error("tlp_rules: byte enables that are not legal");
      end
      if (tvalid_i && second_q && has_data && is_completion) begin
        a_bytes :
        assert (carried < 14'(byte_count) + 14'd4)
        else $error("tlp_rules: a completion with more DWs than bytes");
        a_cut :
        assert (carried >= 14'(byte_count) || (14'(lower) + carried) % 14'(BoundaryBytes) == '0)
        else $error("tlp_rules: a completion stops where none may");
      end
    end
  end

  // Who sends and who asked, and how it is to be ordered, are the sender's.
  logic unused;
  assign unused = ^{start.tc, start.attr, start.id, start.low[12], address[31:12], cfg_i.rcb_128};
endmodule
