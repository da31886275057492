// SPDX-License-Identifier: Apache-2.0
// How far the requester's token may be ahead of the look-ups.
package requester_pkg;

  // The token's way takes two whole clk_net_i periods at least until the start of the frame is
  // sampled, three until its first word is. Permission must have been stable for one clk_pcie_i
  // period before the former, the peer's address before the latter. A token that is held back by
  // every edge that the look-ups take is safe at any period; with fewer edges the longest period of
  // clk_pcie_i and the shortest of clk_net_i decide.
  function automatic int unsigned token_delay(int unsigned pcie_longest_ps,
                                              int unsigned net_shortest_ps, int unsigned page_map,
                                              int unsigned pc_id);
    int unsigned page_ps, peer_ps, page_late_ps, peer_late_ps, late_ps;
    page_ps      = (page_map + 1) * pcie_longest_ps;
    peer_ps      = (page_map + pc_id + 1) * pcie_longest_ps;
    page_late_ps = page_ps > 2 * net_shortest_ps ? page_ps - 2 * net_shortest_ps : 0;
    peer_late_ps = peer_ps > 3 * net_shortest_ps ? peer_ps - 3 * net_shortest_ps : 0;
    late_ps      = page_late_ps > peer_late_ps ? page_late_ps : peer_late_ps;
    return (late_ps + pcie_longest_ps - 1) / pcie_longest_ps;
  endfunction

endpackage
