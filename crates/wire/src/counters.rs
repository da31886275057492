// SPDX-License-Identifier: Apache-2.0
//! Counters: every TLP and every frame ends in exactly one of the lines marked as an end.

/// What one count means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    /// A TLP from the root complex ended here.
    TlpEnd,
    /// A frame from the wire ended here.
    FrameEnd,
    /// Something happened that is not the end of a TLP or frame from outside.
    Event,
}

macro_rules! counters {
    (
        $(#[doc = $type_doc:literal])*
        $type:ident, $base:ident {
            $( $variant:ident $name:literal $counts:ident $doc:literal; )*
        }
    ) => {
        $(#[doc = $type_doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type {
            $(#[doc = $doc] $variant,)*
        }

        impl $type {
            /// All counters, by index.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// Index in the counter window.
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// Offset in BAR 0, in bytes.
            #[must_use]
            pub const fn offset(self) -> u32 {
                crate::registers::$base + 4 * self as u32
            }

            /// Name, as in registers, RTL signals and documentation.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Why it counts.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }

            /// Whether a count is the end of a TLP or frame.
            #[must_use]
            pub const fn counts(self) -> Counts {
                match self { $(Self::$variant => Counts::$counts,)* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// Counters of the PCIe side.
    PcieCounter, PCIE_COUNTER_BASE {
        TlpStore "tlp_store" TlpEnd "store to a mapped page: it becomes a frame";
        TlpLoad "tlp_load" TlpEnd "load from a mapped page: it becomes a frame";
        TlpStoreUnmapped "tlp_store_unmapped" TlpEnd "store to a page whose PC ID is 0, beyond the table or not valid: dropped";
        TlpLoadUnmapped "tlp_load_unmapped" TlpEnd "load from a page whose PC ID is 0, beyond the table or not valid: completed with UR";
        TlpPageBeyond "tlp_page_beyond" TlpEnd "page number beyond the page map: store dropped, load completed with UR";
        TlpRegisterWrite "tlp_register_write" TlpEnd "write to BAR 0";
        TlpRegisterRead "tlp_register_read" TlpEnd "read from BAR 0";
        TlpCompletion "tlp_completion" TlpEnd "completion of an outstanding DMA read";
        TlpCompletionUnexpected "tlp_completion_unexpected" TlpEnd "completion whose tag no DMA read has: dropped";
        TlpUnsupported "tlp_unsupported" TlpEnd "type, BAR, length or 4 KB crossing that the NIC does not take: dropped, completed with UR if it wants an answer";
        TlpPoisoned "tlp_poisoned" TlpEnd "EP set: dropped, a non-posted request completed with UR";
        TlpMalformed "tlp_malformed" TlpEnd "longer or shorter than its header says: dropped";
        LoadNoTag "load_no_tag" TlpEnd "load while all network tags are in use: completed with CA";
        LoadTimeout "load_timeout" Event "no completion came over the network in READ_TIMEOUT_US: the load is completed with CA";
        LoadCompleted "load_completed" Event "the last completion of a load was passed to the CPU";
        LoadCompletionUnexpected "load_completion_unexpected" Event "network completion whose tag is not outstanding, whose sender is not the load's peer, or that does not fit the load: dropped";
        DmaWrite "dma_write" Event "store from the network written to local memory";
        DmaRead "dma_read" Event "load from the network read from local memory";
        DmaReadTimeout "dma_read_timeout" Event "local memory did not answer a DMA read in READ_TIMEOUT_US: CA is sent to the peer";
        RegisterRefused "register_refused" Event "a DW of BAR 0 that is read-only, unknown, beyond its table, or written with byte enables other than 0xF: nothing changes, a read gives 0";
        LoadRetry "load_retry" Event "load of a session sent again because no completion came in LOAD_RETRY_US";
        LoadCompletionRepeated "load_completion_repeated" Event "completion of data that a load already has, or not those that come next: dropped";
        EventWritten "event_written" Event "event written to the ring in local memory";
        Msi "msi" Event "interrupt sent";
    }
}

counters! {
    /// Counters of the network side.
    NetCounter, NET_COUNTER_BASE {
        TxStore "tx_store" Event "store sent";
        TxLoad "tx_load" Event "load sent";
        TxCompletion "tx_completion" Event "completion sent, the zeros of refused loads included";
        TxError "tx_error" Event "error report sent";
        TxArp "tx_arp" Event "ARP reply sent";
        RxFrames "rx_frames" Event "frame received, good or bad: the sum of all ends below";
        RxBadFcs "rx_bad_fcs" FrameEnd "frame check sequence wrong";
        RxRunt "rx_runt" FrameEnd "shorter than 64 bytes";
        RxGiant "rx_giant" FrameEnd "longer than the MAC takes";
        RxPhyError "rx_phy_error" FrameEnd "error symbol from the PHY inside the frame";
        RxBadPreamble "rx_bad_preamble" FrameEnd "no start-of-frame delimiter after the preamble";
        RxNotMine "rx_not_mine" FrameEnd "destination MAC address neither own nor broadcast";
        RxArp "rx_arp" FrameEnd "EtherType 0x0806: the ARP responder's";
        RxNotIpnuma "rx_not_ipnuma" FrameEnd "not IPv4 without options and fragments, not UDP, not the own address or not port 3422";
        RxBadIpChecksum "rx_bad_ip_checksum" FrameEnd "IPv4 header checksum wrong";
        RxBadMagic "rx_bad_magic" FrameEnd "the payload begins as neither format does";
        RxBadTlp "rx_bad_tlp" FrameEnd "TLP type, TD or EP, address or byte enables that the format does not have";
        RxBadLength "rx_bad_length" FrameEnd "IP, UDP, TLP and frame lengths contradict each other";
        RxBadKey "rx_bad_key" FrameEnd "key beyond the table, or its region is not valid: error report sent";
        RxBadEndCode "rx_bad_end_code" FrameEnd "end code wrong: corrupted on the way, or another tag";
        RxBadSource "rx_bad_source" FrameEnd "the region is not shared with the sender: error report sent";
        RxBadRights "rx_bad_rights" FrameEnd "store without the write right, or load without the read right: error report sent";
        RxBadBounds "rx_bad_bounds" FrameEnd "outside the region, or across a 4 KB boundary: error report sent";
        RxStore "rx_store" FrameEnd "store accepted";
        RxLoad "rx_load" FrameEnd "load accepted";
        RxCompletion "rx_completion" FrameEnd "completion accepted";
        RxErrorReport "rx_error_report" FrameEnd "error report accepted: it is in LAST_ERROR";
        RxOverflow "rx_overflow" FrameEnd "no receive slot free: the host took DMA writes too slowly";
        DenyDropped "deny_dropped" Event "error report (and zero completion) not sent because the queue of reports was full";
        ArpDropped "arp_dropped" Event "ARP request not answered because an earlier reply still waited";
        TxUnderrun "tx_underrun" Event "a frame was cut because its data came too late; never in a correct build";
        TxAck "tx_ack" Event "acknowledgement sent in a frame of its own";
        TxNack "tx_nack" Event "negative acknowledgement sent";
        TxVoid "tx_void" Event "void sent: it keeps the sequence in place of a refused operation";
        TxResend "tx_resend" Event "frame of a session sent again";
        TxTimeout "tx_timeout" Event "a session made no progress in its time: it sends again, or its peer is lost";
        TxLost "tx_lost" Event "store or load dropped because its session is lost or not valid";
        TxMerged "tx_merged" Event "store that travelled in the frame of the one before it";
        RxBadSession "rx_bad_session" FrameEnd "the frame's session does not exist, has another epoch or peer, or is sealed and the frame is not, or the reverse";
        RxDuplicate "rx_duplicate" FrameEnd "frame of a session that was taken before: acknowledged again, nothing else";
        RxGap "rx_gap" FrameEnd "frame of a session while an earlier one is missing: dropped";
        RxVoid "rx_void" FrameEnd "void accepted";
        RxAck "rx_ack" FrameEnd "acknowledgement or negative acknowledgement accepted";
        RxBadSeal "rx_bad_seal" FrameEnd "sealed frame that does not open: altered, forged, replayed, or no key for it";
        EventLost "event_lost" Event "event of the network side dropped because earlier ones still waited";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_and_names() {
        assert_eq!(PcieCounter::COUNT, 24);
        assert_eq!(NetCounter::COUNT, 45);
        for (i, counter) in NetCounter::ALL.iter().enumerate() {
            assert_eq!(counter.index(), i);
        }
        let mut names: Vec<_> = NetCounter::ALL.iter().map(|c| c.name()).collect();
        names.extend(PcieCounter::ALL.iter().map(|c| c.name()));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 69, "every name is used once");
        assert_eq!(NetCounter::RxStore.offset(), 0x2000 + 4 * 23);
    }
}
