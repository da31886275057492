// SPDX-License-Identifier: Apache-2.0
//! BAR 0: the registers proper. Tables and counters are dispatched by the NIC.

use wire::registers as reg;

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
    features: u32,
}

fn set_low(value: &mut u64, low: u32) {
    *value = *value >> 32 << 32 | u64::from(low);
}

fn set_high(value: &mut u64, high: u32) {
    *value = u64::from(high & 0xFFFF) << 32 | *value & 0xFFFF_FFFF;
}

impl Registers {
    /// Registers after reset of a NIC with the given table sizes.
    pub fn new(pages: usize, pc_ids: usize, regions: usize) -> Self {
        Self {
            mac: 0,
            ip: 0,
            netmask: 0,
            gateway_ip: 0,
            gateway_mac: 0,
            read_timeout_us: reg::READ_TIMEOUT_US_RESET,
            epoch: 0,
            last_error: (ErrorReport::default(), 0),
            features: reg::features(pages as u32, pc_ids as u32, regions as u32),
        }
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
                u32::from(error.sequence) << 16
                    | u32::from(error.fmt_type) << 8
                    | u32::from(error.code)
            }
            reg::REG_LAST_ERROR_ADDR_LO => error.address as u32,
            reg::REG_LAST_ERROR_ADDR_HI => (error.address >> 32) as u32,
            reg::REG_LAST_ERROR_IP => *error_ip,
            _ => return None,
        })
    }

    /// Writes the DW at a byte offset, if a register is there that takes it.
    pub fn write(&mut self, offset: u32, value: u32) -> Option<()> {
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
            _ => return None,
        }
        Some(())
    }
}
