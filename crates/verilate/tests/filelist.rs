// SPDX-License-Identifier: Apache-2.0
//! File lists are read here as by `tools/filelist.py`, which all other tools use.

use std::fs;
use std::process::Command;

use verilate::FileList;

#[test]
fn every_list_is_read_alike() {
    let root = verilate::root();
    let mut lists = 0;
    for area in fs::read_dir(root.join("rtl"))
        .expect("it is there")
        .flatten()
    {
        let Ok(files) = fs::read_dir(area.path()) else {
            continue;
        };
        for path in files.flatten().map(|file| file.path()) {
            if path.extension().is_none_or(|ending| ending != "f") {
                continue;
            }
            let list = path.strip_prefix(&root).expect("it is below the root");
            let list = list.to_str().expect("its name is plain");
            let output = Command::new(root.join(".venv/bin/python"))
                .arg(root.join("tools/filelist.py"))
                .arg(list)
                .output()
                .expect("tools/setup has run");
            assert!(output.status.success(), "{list}");
            let merged = FileList::merge(&root, &[list]).expect("the list is right");
            let include = merged
                .include
                .iter()
                .map(|folder| format!("+incdir+{folder}"));
            let ours: Vec<_> = include.chain(merged.sources.iter().cloned()).collect();
            let theirs = String::from_utf8(output.stdout).expect("it is text");
            assert_eq!(ours, theirs.lines().collect::<Vec<_>>(), "{list}");
            lists += 1;
        }
    }
    assert!(lists > 5, "{lists} lists were found");
}
