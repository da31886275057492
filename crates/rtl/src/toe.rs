// SPDX-License-Identifier: Apache-2.0
//! The TCP offload engine as its users see it: MAC words on one side; commands, events and words of memory on the other.

use crate::{Error, Handle, NetSpeed, NetWord};

/// What the application tells the engine, as `toe_pkg::command_e` numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ToeCommandKind {
    /// Connections to a port are accepted.
    Listen,
    /// They are not any more.
    Unlisten,
    /// A connection is opened; the engine chooses its number and tells it by an event.
    Connect,
    /// No more will be sent.
    Close,
    /// The connection is reset.
    Abort,
    /// The application has taken bytes: the window opens.
    Read,
    /// The application has put bytes behind those in the send buffer.
    Write,
}

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToeCommand {
    /// What is to be done.
    pub kind: ToeCommandKind,
    /// To which connection.
    pub conn: u16,
    /// Of [`ToeCommandKind::Connect`]: where frames to the peer go.
    pub mac: u64,
    /// The same: the peer.
    pub ip: u32,
    /// The same: its port.
    pub peer_port: u16,
    /// Own port, of the commands without a connection.
    pub local_port: u16,
    /// Bytes.
    pub amount: u32,
}

/// State of a connection, as `toe_pkg::state_e` numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ToeState {
    /// There is none.
    Closed,
    /// A SYN was sent.
    SynSent,
    /// One came, and was answered.
    SynReceived,
    /// Both directions are open.
    Established,
    /// Own FIN sent.
    FinWait1,
    /// And acknowledged.
    FinWait2,
    /// The peer's FIN came first.
    CloseWait,
    /// Both FINs crossed.
    Closing,
    /// Own FIN sent behind the peer's.
    LastAck,
    /// All is done; late segments are answered.
    TimeWait,
}

impl ToeState {
    const ALL: [Self; 10] = [
        Self::Closed,
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::FinWait1,
        Self::FinWait2,
        Self::CloseWait,
        Self::Closing,
        Self::LastAck,
        Self::TimeWait,
    ];

    /// Whether the peer's FIN is among what was received.
    pub const fn has_fin(self) -> bool {
        matches!(
            self,
            Self::CloseWait | Self::Closing | Self::LastAck | Self::TimeWait
        )
    }
}

/// A connection as the engine tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToeEvent {
    /// Which one.
    pub conn: u16,
    /// Its state now.
    pub state: ToeState,
    /// It is established with this event.
    pub opened: bool,
    /// It was reset, by either side, or given up.
    pub reset: bool,
    /// Everything before this number was received in order, is verified, and is in memory; a FIN counts one.
    pub rcv_nxt: u32,
    /// Everything before this number is acknowledged.
    pub snd_una: u32,
    /// Everything before this number was read; with `opened` the number of the first byte.
    pub rcv_read: u32,
    /// Own port.
    pub local_port: u16,
    /// The peer's port.
    pub peer_port: u16,
    /// The peer.
    pub peer_ip: u32,
}

/// A word for a receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToeWrite {
    /// Whose.
    pub conn: u16,
    /// Sequence number of its first byte, divided by 8.
    pub word: u32,
    /// First byte in the low bits.
    pub data: u64,
    /// Which bytes are to be written.
    pub strobe: u8,
}

/// A word of a send buffer that the engine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToeRead {
    /// Whose.
    pub conn: u16,
    /// Sequence number of its first byte, divided by 8.
    pub word: u32,
}

/// What the engine counts, in the order of `toe_pkg::counts_t` and one that it tells apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToeCounts {
    /// Frames with a wrong checksum, or given up with one.
    pub bad: u64,
    /// Frames that are no TCP over IPv4 for this address.
    pub foreign: u64,
    /// Segments without a connection.
    pub orphan: u64,
    /// SYNs beyond the limit.
    pub flooded: u64,
    /// Segments with an old time stamp.
    pub paws: u64,
    /// Challenge acknowledgements.
    pub challenge: u64,
    /// Segments behind more holes than are remembered.
    pub no_gap: u64,
    /// Retransmission time-outs.
    pub timeout: u64,
    /// Commands that cannot be done.
    pub refused: u64,
    /// Frames that found no room in the network buffer.
    pub overflow: u64,
}

impl ToeCounts {
    /// Adds a cycle's pulses; the first field is the highest bit.
    fn add(&mut self, pulses: u64) {
        let fields = [
            &mut self.refused,
            &mut self.timeout,
            &mut self.no_gap,
            &mut self.challenge,
            &mut self.paws,
            &mut self.flooded,
            &mut self.orphan,
            &mut self.foreign,
            &mut self.bad,
        ];
        for (bit, field) in fields.into_iter().enumerate() {
            *field += pulses >> bit & 1;
        }
    }
}

/// Inputs of the engine other than its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToeInputs {
    /// Reset.
    pub rst: bool,
    /// Microseconds.
    pub now_us: u32,
    /// Key of the initial sequence numbers.
    pub secret: u64,
    /// Own MAC address.
    pub mac: u64,
    /// Own IPv4 address.
    pub ip: u32,
    /// Word from the PHY: XGMII.
    pub net: NetWord,
    /// Command; it is taken at an edge with `command_ready`.
    pub command: Option<ToeCommand>,
    /// The memory takes the offered `write` at the next edge.
    pub write_ready: bool,
    /// The memory takes the offered `read` at the next edge.
    pub read_ready: bool,
    /// The next word that was asked for.
    pub data: Option<u64>,
}

/// Outputs of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToeOutputs {
    /// Word to the PHY.
    pub net: NetWord,
    /// The offered command is taken at the next edge.
    pub command_ready: bool,
    /// Event; it cannot wait.
    pub event: Option<ToeEvent>,
    /// Word for a receive buffer.
    pub write: Option<ToeWrite>,
    /// Word of a send buffer that is wanted.
    pub read: Option<ToeRead>,
    /// The time in microseconds at which the first timer is due.
    pub alarm: Option<u32>,
    /// The MAC has work left.
    pub busy: bool,
}

/// The Verilated engine behind its 10G MAC.
///
/// A cycle takes three steps, as with [`Switch`](crate::Switch): write [`Toe::inputs`], call [`Toe::settle`], which shows
/// what is offered and ready before the edge, and call [`Toe::edge`].
///
/// ```no_run
/// use ipnuma_rtl::Toe;
/// # fn main() -> Result<(), ipnuma_rtl::Error> {
/// let mut engine = Toe::new()?;
/// engine.inputs.ip = 0x0A00_0001;
/// engine.reset()?;
/// let word = engine.settle()?.net;
/// engine.edge()?;
/// # let _ = word; Ok(())
/// # }
/// ```
pub struct Toe {
    /// Taken by the next [`Toe::settle`].
    pub inputs: ToeInputs,
    /// What was counted.
    pub counts: ToeCounts,
    outputs: ToeOutputs,
    model: Handle,
    ports: Ports,
    applied: Option<ToeInputs>,
    settled: bool,
}

impl Toe {
    /// Connections of this build.
    pub const CONNECTIONS: usize = 16;
    /// Bytes of a receive buffer of this build.
    pub const RX_BYTES: usize = 65_536;
    /// Cycles after which an engine with nothing to do is in the same state again: it looks at one connection's timers
    /// every 64.
    pub const IDLE_CYCLES: u64 = 64 * Self::CONNECTIONS as u64;
    /// Ports that can be listened at.
    pub const LISTENERS: usize = 4;

    /// Creates an engine held in reset.
    pub fn new() -> Result<Self, Error> {
        let model = Handle::new("toe_10g")?;
        let idle = NetSpeed::TenGig.idle();
        Ok(Self {
            inputs: ToeInputs {
                rst: true,
                now_us: 0,
                secret: 0,
                mac: 0,
                ip: 0,
                net: idle,
                command: None,
                write_ready: true,
                read_ready: true,
                data: None,
            },
            counts: ToeCounts::default(),
            outputs: ToeOutputs {
                net: idle,
                command_ready: false,
                event: None,
                write: None,
                read: None,
                alarm: None,
                busy: false,
            },
            ports: Ports::of(&model)?,
            model,
            applied: None,
            settled: false,
        })
    }

    /// Applies reset for eight edges and releases it.
    pub fn reset(&mut self) -> Result<(), Error> {
        const EDGES: usize = 8;
        self.inputs.rst = true;
        for _ in 0..EDGES {
            self.edge()?;
        }
        self.inputs.rst = false;
        self.edge()?;
        self.counts = ToeCounts::default();
        self.settle()?;
        Ok(())
    }

    /// Sets the time of the coming edge in picoseconds, for messages.
    #[inline]
    pub fn set_time(&mut self, ps: u64) {
        self.model.set_time(ps);
    }

    /// Lowers the clock, applies the inputs, and returns the outputs before the coming edge.
    pub fn settle(&mut self) -> Result<&ToeOutputs, Error> {
        let steps = self.applied.is_some() && self.model.has_steps();
        if self.applied != Some(self.inputs) || !steps {
            if !steps {
                self.model.set(self.ports.clk_i, false);
            }
            self.apply();
            if steps {
                self.model.eval_inputs()?;
            } else {
                self.model.eval()?;
            }
            self.applied = Some(self.inputs);
            self.outputs = self.read();
        }
        self.settled = true;
        Ok(&self.outputs)
    }

    /// Raises the clock and returns the outputs after the edge.
    pub fn edge(&mut self) -> Result<&ToeOutputs, Error> {
        if !self.settled {
            self.settle()?;
        }
        self.settled = false;
        let (model, ports) = (&mut self.model, &self.ports);
        self.counts.add(model.get(ports.counts_o));
        self.counts.overflow += model.get(ports.overflow_o);
        model.set(ports.clk_i, true);
        if model.has_steps() {
            model.eval_edge()?;
        } else {
            model.eval()?;
        }
        self.outputs = self.read();
        Ok(&self.outputs)
    }

    fn apply(&mut self) {
        let (model, ports, inputs) = (&mut self.model, &self.ports, &self.inputs);
        model.set(ports.rst_i, inputs.rst);
        model.set(ports.now_us_i, inputs.now_us);
        model.set(ports.secret_i, inputs.secret);
        model.set(ports.mac_i, inputs.mac);
        model.set(ports.ip_i, inputs.ip);
        let NetWord::Xgmii { data, control } = inputs.net else {
            panic!("the engine takes XGMII words, not {:?}", inputs.net)
        };
        model.set(ports.xgmii_rxd_i, data);
        model.set(ports.xgmii_rxc_i, control);
        model.set(ports.command_valid_i, inputs.command.is_some());
        if let Some(command) = inputs.command {
            model.set(ports.command_kind_i, command.kind as u8);
            model.set(ports.command_conn_i, command.conn);
            model.set(ports.command_mac_i, command.mac);
            model.set(ports.command_ip_i, command.ip);
            model.set(ports.command_peer_port_i, command.peer_port);
            model.set(ports.command_local_port_i, command.local_port);
            model.set(ports.command_amount_i, command.amount);
        }
        model.set(ports.write_ready_i, inputs.write_ready);
        model.set(ports.read_ready_i, inputs.read_ready);
        model.set(ports.data_valid_i, inputs.data.is_some());
        model.set(ports.data_i, inputs.data.unwrap_or_default());
    }

    fn read(&self) -> ToeOutputs {
        let (model, ports) = (&self.model, &self.ports);
        let word = |port| model.get(port) as u32;
        ToeOutputs {
            net: NetWord::Xgmii {
                data: model.get(ports.xgmii_txd_o),
                control: model.get(ports.xgmii_txc_o) as u8,
            },
            command_ready: model.bit(ports.command_ready_o),
            event: model.bit(ports.event_valid_o).then(|| ToeEvent {
                conn: word(ports.event_conn_o) as u16,
                state: ToeState::ALL[(word(ports.event_state_o) as usize).min(9)],
                opened: model.bit(ports.event_opened_o),
                reset: model.bit(ports.event_reset_o),
                rcv_nxt: word(ports.event_rcv_nxt_o),
                snd_una: word(ports.event_snd_una_o),
                rcv_read: word(ports.event_rcv_read_o),
                local_port: word(ports.event_local_port_o) as u16,
                peer_port: word(ports.event_peer_port_o) as u16,
                peer_ip: word(ports.event_peer_ip_o),
            }),
            write: model.bit(ports.write_valid_o).then(|| ToeWrite {
                conn: word(ports.write_conn_o) as u16,
                word: word(ports.write_word_o),
                data: model.get(ports.write_data_o),
                strobe: word(ports.write_strb_o) as u8,
            }),
            read: model.bit(ports.read_valid_o).then(|| ToeRead {
                conn: word(ports.read_conn_o) as u16,
                word: word(ports.read_word_o),
            }),
            alarm: model.bit(ports.alarm_o).then(|| word(ports.alarm_at_o)),
            busy: model.bit(ports.busy_o),
        }
    }
}

ports!(Ports {
    clk_i,
    rst_i,
    now_us_i,
    secret_i,
    mac_i,
    ip_i,
    xgmii_rxd_i,
    xgmii_rxc_i,
    xgmii_txd_o,
    xgmii_txc_o,
    command_kind_i,
    command_conn_i,
    command_mac_i,
    command_ip_i,
    command_peer_port_i,
    command_local_port_i,
    command_amount_i,
    command_valid_i,
    command_ready_o,
    event_conn_o,
    event_state_o,
    event_opened_o,
    event_reset_o,
    event_rcv_nxt_o,
    event_snd_una_o,
    event_rcv_read_o,
    event_local_port_o,
    event_peer_port_o,
    event_peer_ip_o,
    event_valid_o,
    write_conn_o,
    write_word_o,
    write_data_o,
    write_strb_o,
    write_valid_o,
    write_ready_i,
    read_conn_o,
    read_word_o,
    read_valid_o,
    read_ready_i,
    data_i,
    data_valid_i,
    counts_o,
    overflow_o,
    alarm_o,
    alarm_at_o,
    busy_o,
});
