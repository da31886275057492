// SPDX-License-Identifier: Apache-2.0
//! BAR 0: the registers proper. Tables and counters are dispatched by the NIC.

use wire::registers as reg;

use crate::nic::Config;
use crate::verdict::ErrorReport;

/// The registers of BAR 0.
#[derive(Clone, Debug)]
pub struct Registers {
    /// Own MAC address.
    pub mac: u64,
    /// Own IPv4 address.
    pub ip: u32,
    /// Mask of the own subnet.
    pub netmask: u32,
    /// IPv4 address of the gateway; kept for software.
    pub gateway_ip: u32,
    /// MAC address of the gateway.
    pub gateway_mac: u64,
    /// Microseconds after which a read that nobody answers is completed with CA.
    pub read_timeout_us: u32,
    /// Epoch that outgoing frames carry.
    pub epoch: u8,
    /// Last error report received, and the IPv4 address that it came from.
    pub last_error: (ErrorReport, u32),
    /// Merging (bit 0) and sealing (bit 1).
    pub control: u32,
    /// Ticks without progress after which a session sends again.
    pub resend_ticks: u32,
    /// Ticks that an acknowledgement waits for a frame.
    pub ack_ticks: u32,
    /// Time-outs after which a peer is lost, and how often the time-out doubles.
    pub resend_limit: u32,
    /// Frames in flight, frames to an acknowledgement.
    pub window: u32,
    /// Microseconds after which a load is sent again; 0: never.
    pub load_retry_us: u32,
    /// Local address of the event ring.
    pub event_base: u64,
    /// log2 of the entries of the event ring; 0: off.
    pub event_log2: u32,
    /// Events that software has taken.
    pub event_tail: u32,
    /// Where interrupts are written to.
    pub msi_address: u64,
    /// What an interrupt writes.
    pub msi_data: u32,
    /// Microseconds between interrupts.
    pub msi_moderation_us: u32,
    /// Causes of interrupts.
    pub msi_control: u32,
    /// How frames of sessions are paced; the model keeps it, and does not pace.
    pub pace: u32,
    features: u32,
}

/// The value after reset of a register that can be written.
fn reset(offset: u32) -> u32 {
    match reg::register(offset).map(|register| register.reset) {
        Some(reg::Reset::Value(value)) => value,
        _ => 0,
    }
}

/// Bit of `CONTROL`: sealed frames are opened.
const CONTROL_AUTH: u32 = 2;

fn set_low(value: &mut u64, low: u32) {
    *value = *value >> 32 << 32 | u64::from(low);
}

fn set_upper(value: &mut u64, high: u32) {
    *value = u64::from(high) << 32 | *value & 0xFFFF_FFFF;
}

fn set_high(value: &mut u64, high: u32) {
    *value = u64::from(high & 0xFFFF) << 32 | *value & 0xFFFF_FFFF;
}

impl Registers {
    /// Registers after reset of a NIC that was built so.
    pub fn new(config: &Config) -> Self {
        let [pages, pc_ids, regions, sessions] =
            [config.pages, config.pc_ids, config.regions, config.sessions]
                .map(|count| count as u32);
        Self {
            mac: 0,
            ip: 0,
            netmask: 0,
            gateway_ip: 0,
            gateway_mac: 0,
            read_timeout_us: reg::READ_TIMEOUT_US_RESET,
            epoch: 0,
            last_error: (ErrorReport::default(), 0),
            control: reset(reg::REG_CONTROL),
            resend_ticks: reset(reg::REG_RESEND_TICKS),
            ack_ticks: reset(reg::REG_ACK_TICKS),
            resend_limit: reset(reg::REG_RESEND_LIMIT),
            window: reset(reg::REG_WINDOW),
            load_retry_us: reset(reg::REG_LOAD_RETRY_US),
            event_base: 0,
            event_log2: 0,
            event_tail: 0,
            msi_address: 0,
            msi_data: 0,
            msi_moderation_us: reset(reg::REG_MSI_MODERATION_US),
            msi_control: reset(reg::REG_MSI_CONTROL),
            pace: reset(reg::REG_PACE),
            features: reg::features(pages, pc_ids, regions, sessions, config.auth),
        }
    }

    /// Whether sealed frames are opened.
    pub fn auth(&self) -> bool {
        self.control & CONTROL_AUTH != 0
    }

    /// The DW at a byte offset, if a register is there.
    pub fn read(&self, offset: u32) -> Option<u32> {
        let (error, error_ip) = &self.last_error;
        Some(match offset {
            reg::REG_ID => reg::ID_VALUE,
            reg::REG_VERSION => reg::VERSION_VALUE,
            reg::REG_FEATURES => self.features,
            reg::REG_MAC_LO => self.mac as u32,
            reg::REG_MAC_HI => (self.mac >> 32) as u32,
            reg::REG_IP => self.ip,
            reg::REG_NETMASK => self.netmask,
            reg::REG_GATEWAY_IP => self.gateway_ip,
            reg::REG_GATEWAY_MAC_LO => self.gateway_mac as u32,
            reg::REG_GATEWAY_MAC_HI => (self.gateway_mac >> 32) as u32,
            reg::REG_READ_TIMEOUT_US => self.read_timeout_us,
            reg::REG_EPOCH => u32::from(self.epoch),
            reg::REG_LAST_ERROR => {
                error.sequence << 16 | u32::from(error.fmt_type) << 8 | u32::from(error.code)
            }
            reg::REG_LAST_ERROR_ADDR_LO => error.address as u32,
            reg::REG_LAST_ERROR_ADDR_HI => (error.address >> 32) as u32,
            reg::REG_LAST_ERROR_IP => *error_ip,
            reg::REG_CONTROL => self.control,
            reg::REG_RESEND_TICKS => self.resend_ticks,
            reg::REG_ACK_TICKS => self.ack_ticks,
            reg::REG_RESEND_LIMIT => self.resend_limit,
            reg::REG_WINDOW => self.window,
            reg::REG_LOAD_RETRY_US => self.load_retry_us,
            reg::REG_FLUSH => 0,
            reg::REG_EVENT_BASE_LO => self.event_base as u32,
            reg::REG_EVENT_BASE_HI => (self.event_base >> 32) as u32,
            reg::REG_EVENT_LOG2 => self.event_log2,
            reg::REG_EVENT_TAIL => self.event_tail,
            reg::REG_MSI_ADDRESS_LO => self.msi_address as u32,
            reg::REG_MSI_ADDRESS_HI => (self.msi_address >> 32) as u32,
            reg::REG_MSI_DATA => self.msi_data,
            reg::REG_MSI_MODERATION_US => self.msi_moderation_us,
            reg::REG_MSI_CONTROL => self.msi_control,
            reg::REG_PACE => self.pace,
            _ => return None,
        })
    }

    /// Writes the DW at a byte offset, if a register is there that takes it. What a write sets in motion is the NIC's.
    pub fn write(&mut self, offset: u32, value: u32) -> Option<()> {
        let value = value & reg::register(offset)?.mask;
        match offset {
            reg::REG_MAC_LO => set_low(&mut self.mac, value),
            reg::REG_MAC_HI => set_high(&mut self.mac, value),
            reg::REG_IP => self.ip = value,
            reg::REG_NETMASK => self.netmask = value,
            reg::REG_GATEWAY_IP => self.gateway_ip = value,
            reg::REG_GATEWAY_MAC_LO => set_low(&mut self.gateway_mac, value),
            reg::REG_GATEWAY_MAC_HI => set_high(&mut self.gateway_mac, value),
            reg::REG_READ_TIMEOUT_US => self.read_timeout_us = value,
            reg::REG_EPOCH => self.epoch = value as u8,
            reg::REG_CONTROL => self.control = value,
            reg::REG_RESEND_TICKS => self.resend_ticks = value,
            reg::REG_ACK_TICKS => self.ack_ticks = value,
            reg::REG_RESEND_LIMIT => self.resend_limit = value,
            reg::REG_WINDOW => self.window = value,
            reg::REG_LOAD_RETRY_US => self.load_retry_us = value,
            reg::REG_FLUSH => {}
            reg::REG_EVENT_BASE_LO => set_low(&mut self.event_base, value),
            reg::REG_EVENT_BASE_HI => set_upper(&mut self.event_base, value),
            reg::REG_EVENT_LOG2 => self.event_log2 = value,
            reg::REG_EVENT_TAIL => self.event_tail = value,
            reg::REG_MSI_ADDRESS_LO => set_low(&mut self.msi_address, value),
            reg::REG_MSI_ADDRESS_HI => set_upper(&mut self.msi_address, value),
            reg::REG_MSI_DATA => self.msi_data = value,
            reg::REG_MSI_MODERATION_US => self.msi_moderation_us = value,
            reg::REG_MSI_CONTROL => self.msi_control = value,
            reg::REG_PACE => self.pace = value,
            _ => return None,
        }
        Some(())
    }
}
