// SPDX-License-Identifier: Apache-2.0
// What a host has set in the configuration space of a device, as far as those who send TLPs must keep to it.
package pcie_pkg;

  // Encoded as the registers are. It changes between TLPs only, and a TLP that was offered is not taken back.
  typedef struct packed {
    logic [2:0] max_payload;  // Device Control 7:5: 128 bytes << n in a TLP of ours
    logic [2:0] max_read;     // Device Control 14:12: 128 bytes << n asked for in one
    // Link Control 3: the root complex cuts its completions at 128 bytes, not 64. Those who read take any cut, and
    // an endpoint cuts its own at 128 whatever this says.
    logic       rcb_128;
    logic       bus_master;   // Command 2: memory requests may be sent
  } pcie_cfg_t;

  /// For a NIC whose host says nothing: 256 bytes of payload, 512 of a read, permitted.
  localparam pcie_cfg_t PCIE_CFG_DEFAULT = '{
      max_payload: 3'd1,
      max_read: 3'd2,
      rcb_128: 1'b0,
      bus_master: 1'b1
  };

  /// DWs of the smallest limit. No operation of a NIC has more than twice as many, so no other limit cuts any.
  localparam int unsigned SMALLEST_LIMIT_DW = 32;

  /// Where an endpoint may cut a completion: base specification, 2.3.1.1.
  localparam int unsigned COMPLETER_BOUNDARY_DW = 32;

  /// Where a root complex may.
  localparam int unsigned ROOT_BOUNDARY_BYTES = 64;

endpackage
