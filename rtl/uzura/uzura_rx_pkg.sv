// SPDX-License-Identifier: Apache-2.0
// States of the receiver, which its proof names, too.
package uzura_rx_pkg;
  typedef enum logic [4:0] {
    Idle,
    Cfg,
    Acquire,
    Load,
    Judge,
    Again,        // a repeated packet
    AgainAtomic,
    Sequence,
    Rqe,          // take an entry of the receive queue; a READ's other segments out of its own
    RqeWait,
    Accept,       // may it?
    Region,       // of the whole message
    Place,
    Segment,      // the next part of several segments
    Resolve,
    Long,
    Write,
    AtomicRead,
    AtomicWait,
    AtomicWrite,
    Update,
    Answer,       // requester: look at the oldest request
    AnswerRead,
    AnswerCheck,
    AnswerCqe,
    AnswerAct,
    AnswerPlace,
    AnswerDone,
    Nak,
    Complete,
    Owe,
    Store
  } state_e;
endpackage
