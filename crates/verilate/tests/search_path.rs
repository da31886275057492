// SPDX-License-Identifier: Apache-2.0
//! A model has the same name, and so is found, whatever `PATH` is; and where `tools/stamps.py` has the cache, it is.

use std::process::Command;

#[test]
fn models_are_found_whatever_path_is() {
    let names = |path: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_verilate"));
        command.args(["--paths", "ipnuma_nic_10g", "fibnic_1g"]);
        match path {
            Some(path) => command.env("PATH", path),
            None => command.env_remove("PATH"),
        };
        let output = command.output().expect("it was built for this test");
        assert!(output.status.success(), "{path:?}");
        String::from_utf8(output.stdout).expect("names")
    };
    let usual = names(Some("/usr/local/bin:/usr/bin:/bin"));
    assert_eq!(usual.lines().count(), 2);
    for path in [None, Some(""), Some("/bin"), Some("/nonexistent")] {
        assert_eq!(names(path), usual, "{path:?}");
    }
}

#[test]
fn the_cache_is_where_the_benches_have_it() {
    let root = verilate::root();
    let settings: [&[(&str, &str)]; 4] = [
        &[("HOME", "/home/a")],
        &[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/x")],
        &[("XDG_CACHE_HOME", "/x"), ("IPNUMA_CACHE", "/own")],
        &[("IPNUMA_CACHE", ""), ("XDG_CACHE_HOME", "")],
    ];
    for variables in settings {
        let said = |mut command: Command| {
            for name in ["HOME", "XDG_CACHE_HOME", "IPNUMA_CACHE"] {
                command.env_remove(name);
            }
            let output = command.envs(variables.iter().copied()).output();
            let output = output.expect("tools/setup has run");
            assert!(output.status.success(), "{variables:?}");
            String::from_utf8(output.stdout).expect("a path")
        };
        let mut benches = Command::new(root.join(".venv/bin/python"));
        benches
            .current_dir(root.join("tools"))
            .args(["-c", "import stamps; print(stamps.cache())"]);
        let mut models = Command::new(env!("CARGO_BIN_EXE_verilate"));
        models.args(["--paths", "fibnic_1g"]);
        let folder = format!("{}/models/fibnic_1g-", said(benches).trim_end());
        let path = said(models);
        assert!(
            path.contains(&format!(" {folder}")),
            "{variables:?}: {path}, {folder}"
        );
    }
}
