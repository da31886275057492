// SPDX-License-Identifier: Apache-2.0
// The C interface between Rust (crates/rtl/src/sys.rs, which declares the same two structs) and a Verilated
// model, and a template that implements it for any model. src/shim.rs instantiates it for each top.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>

#include "verilated.h"
#include "verilated_fst_c.h"

extern "C" {

struct IpnumaPort {
  const char* name;
  std::uint32_t width;
  std::uint32_t is_output;
  // Ports wider than 64 bits in lanes of 64, the least significant first; others have lane 0.
  std::uint64_t (*get)(const void* instance, std::uint32_t lane);
  void (*set)(void* instance, std::uint32_t lane, std::uint64_t value);
};

struct IpnumaModel {
  // Which of these structs it is: kInterface.
  std::uint64_t interface;
  const char* name;
  const IpnumaPort* ports;
  std::uint32_t port_count;
  void* (*create)();
  void (*destroy)(void* instance);
  int (*eval)(void* instance);
  void (*set_time)(void* instance, std::uint64_t ps);
  int (*trace_open)(void* instance, const char* path, int levels);
  void (*trace_dump)(void* instance, std::uint64_t ps);
  void (*trace_close)(void* instance);
  const char* (*failure)(const void* instance);
  // The two halves of an evaluation, from the second on; null where eval() is the only way. `inputs` lets the inputs take
  // effect that are no clocks, `edge` the edges of the clocks that are high; inputs may not change in between.
  int (*inputs)(void* instance);
  int (*edge)(void* instance);
  // Whether anything is on its way from one clock to another; null where that is not known.
  int (*crossing)(const void* instance);
};

}  // extern "C"

namespace ipnuma {

// Counted up with every change of the two structs above; src/sys.rs has the same number.
constexpr std::uint64_t kInterface = 1;

// What the running evaluation said; runtime.cpp fills it in from Verilator's callbacks.
struct Report {
  std::string text;
  std::string failure;
};

// Directs the output of this thread's evaluation to a report.
void begin(Report* report);
// Ends it; prints what the model displayed, unless it belongs to a failure.
void end();

// Runs a function on a thread with a stack of its own and waits for it. A model's first evaluation
// runs its initial blocks, where the generated code holds whole memories as temporaries, more than
// the stack of a caller's thread may take.
template <class Body>
void on_big_stack(Body& body) {
  constexpr std::size_t kBytes = std::size_t{256} << 20;  // address space, not memory
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kBytes);
  const auto run = [](void* p) -> void* {
    (*static_cast<Body*>(p))();
    return nullptr;
  };
  const int error = pthread_create(&thread, &attributes, run, &body);
  pthread_attr_destroy(&attributes);
  if (error != 0) throw std::runtime_error("cannot start a thread for the first evaluation");
  pthread_join(thread, nullptr);
}

// Of a model that can only be evaluated as a whole.
struct NoSteps {};

template <class Model, class Steps>
struct Instance {
  std::unique_ptr<VerilatedContext> context;
  std::unique_ptr<Model> top;
  std::unique_ptr<VerilatedFstC> fst;
  Report report;
  bool started = false;

  static Instance* of(void* p) { return static_cast<Instance*>(p); }
  static const Instance* of(const void* p) { return static_cast<const Instance*>(p); }

  // No C++ exception may cross into Rust: it ends here as a failure of the model.
  template <class Body>
  int guarded(Body body) {
    if (!report.failure.empty()) return 1;
    begin(&report);
    try {
      body();
    } catch (const std::exception& error) {
      if (report.failure.empty()) report.failure = error.what();
    } catch (...) {
      if (report.failure.empty()) report.failure = "unknown C++ exception";
    }
    end();
    return report.failure.empty() ? 0 : 1;
  }

  static void* create() {
    try {
      auto self = std::make_unique<Instance>();
      self->context = std::make_unique<VerilatedContext>();
      self->context->traceEverOn(true);
      self->guarded([&] { self->top = std::make_unique<Model>(self->context.get(), "TOP"); });
      return self.release();
    } catch (...) {
      return nullptr;
    }
  }

  static void destroy(void* p) {
    auto* self = of(p);
    self->guarded([&] {
      if (self->fst) self->fst->close();
      if (self->top) self->top->final();
    });
    delete self;
  }

  static int eval(void* p) {
    auto* self = of(p);
    const auto evaluate = [self] {
      Verilated::threadContextp(self->context.get());
      self->top->eval();
    };
    if (self->started) return self->guarded(evaluate);
    self->started = true;
    int status = 1;
    auto first = [&] { status = self->guarded(evaluate); };
    try {
      on_big_stack(first);
    } catch (const std::exception& error) {
      self->report.failure = error.what();
    }
    return status;
  }

  static constexpr auto inputs() -> int (*)(void*) {
    if constexpr (requires(Model* top) { Steps::inputs(top); }) {
      return [](void* p) {
        auto* self = of(p);
        return self->guarded([self] {
          Verilated::threadContextp(self->context.get());
          Steps::inputs(self->top.get());
        });
      };
    } else {
      return nullptr;
    }
  }

  static constexpr auto edge() -> int (*)(void*) {
    if constexpr (requires(Model* top) { Steps::edge(top); }) {
      return [](void* p) {
        auto* self = of(p);
        return self->guarded([self] {
          Verilated::threadContextp(self->context.get());
          Steps::edge(self->top.get());
        });
      };
    } else {
      return nullptr;
    }
  }

  static constexpr auto crossing() -> int (*)(const void*) {
    if constexpr (requires(const Model* top) { Steps::crossing(top); }) {
      return [](const void* p) { return Steps::crossing(of(p)->top.get()); };
    } else {
      return nullptr;
    }
  }

  static void set_time(void* p, std::uint64_t ps) { of(p)->context->time(ps); }

  static int trace_open(void* p, const char* path, int levels) {
    auto* self = of(p);
    int opened = 0;
    self->guarded([&] {
      // A model registers its signals with one trace object for life: a second file reuses it.
      if (!self->fst) {
        self->fst = std::make_unique<VerilatedFstC>();
        self->top->trace(self->fst.get(), levels);
      } else if (self->fst->isOpen()) {
        self->fst->close();
      }
      self->fst->open(path);
      opened = self->fst->isOpen() ? 1 : 0;
    });
    return opened ? 0 : 1;
  }

  static void trace_dump(void* p, std::uint64_t ps) {
    auto* self = of(p);
    if (self->fst && self->fst->isOpen()) self->fst->dump(ps);
  }

  static void trace_close(void* p) {
    auto* self = of(p);
    if (self->fst && self->fst->isOpen()) self->fst->close();
  }

  static const char* failure(const void* p) { return of(p)->report.failure.c_str(); }
};

constexpr std::uint64_t mask(unsigned width) {
  return width >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
}

// Verilator keeps wide values in words of 32 bits.
template <std::size_t Words>
std::uint64_t lane(const VlWide<Words>& value, std::uint32_t lane) {
  const std::size_t low = std::size_t{2} * lane;
  std::uint64_t bits = value[low];
  if (low + 1 < Words) bits |= std::uint64_t{value[low + 1]} << 32;
  return bits;
}

template <std::size_t Words>
void set_lane(VlWide<Words>& value, unsigned width, std::uint32_t lane, std::uint64_t bits) {
  const std::size_t low = std::size_t{2} * lane;
  bits &= mask(width - 64 * lane);
  value[low] = static_cast<EData>(bits);
  if (low + 1 < Words) value[low + 1] = static_cast<EData>(bits >> 32);
}

}  // namespace ipnuma
