// SPDX-License-Identifier: Apache-2.0
//! What an administrator sees of regions, and takes back.

use ipc::protocol::{Notice, Reply, Request};

use super::{World, export, region};

#[test]
fn an_administrator_can_take_back_a_region() {
    let mut world = World::new();
    let [owner, holder, administrator] = [0; 3].map(|_| world.process());
    let (region, token) = region(&mut world, owner);
    let Reply::Window { window, .. } = world.ask(holder, Request::Connect { token }) else {
        panic!("no window");
    };
    assert_eq!(
        world.ask(administrator, Request::RevokeRegion { region }),
        Reply::Done
    );
    let told = |window, region| Notice::Revoked {
        channel: None,
        window,
        region,
    };
    assert_eq!(
        world.notices(),
        [
            (holder, told(Some(window), None)),
            (owner, told(None, Some(region)))
        ]
    );
    let Reply::Regions(list) = world.ask(administrator, Request::Regions { after: 0 }) else {
        panic!("no list");
    };
    assert_eq!((list.len(), list[0].exports.len()), (1, 0));
}

#[test]
fn regions_are_listed_in_answers_of_limited_size() {
    const TOKENS: usize = 400;
    let mut world = World::new();
    let [owner, administrator] = [0; 2].map(|_| world.process());
    let regions = [0; 4].map(|_| region(&mut world, owner).0);
    for region in regions {
        for _ in 1..TOKENS {
            export(&mut world, owner, region);
        }
    }
    let mut listed = Vec::new();
    loop {
        let after = listed.last().copied().unwrap_or(0);
        let Reply::Regions(list) = world.ask(administrator, Request::Regions { after }) else {
            panic!("no list");
        };
        let tokens: usize = list.iter().map(|region| region.exports.len()).sum();
        assert!(tokens <= 1000, "{tokens} tokens in one answer");
        if list.is_empty() {
            break;
        }
        assert_eq!(tokens, TOKENS * list.len());
        listed.extend(list.iter().map(|region| region.region));
    }
    assert_eq!(listed, regions);
}
