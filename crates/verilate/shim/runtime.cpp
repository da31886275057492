// SPDX-License-Identifier: Apache-2.0
// Replaces what Verilator's runtime does on $error, $finish and internal errors: by default it
// ends the process; here the model fails and its owner is told.
#include <cstdarg>
#include <cstdio>
#include <stdexcept>

#include "shim.hpp"

namespace {

thread_local ipnuma::Report* current = nullptr;

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \n\t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \n\t") - first + 1);
}

// The first failure is the cause; what follows in the same evaluation is a consequence.
void fail(const std::string& fallback) {
  if (current == nullptr || !current->failure.empty()) return;
  current->failure = trimmed(current->text);
  if (current->failure.empty()) current->failure = fallback;
  current->text.clear();
}

std::string at(const char* file, int line) {
  return std::string(file != nullptr ? file : "?") + ":" + std::to_string(line);
}

}  // namespace

namespace ipnuma {

void begin(Report* report) { current = report; }

void end() {
  if (!current->text.empty()) {
    if (current->failure.empty()) std::fputs(current->text.c_str(), stdout);
    current->text.clear();
  }
  current = nullptr;
}

}  // namespace ipnuma

extern "C" int ipnuma_model_printf(const char* format, ...) {
  va_list args;
  va_start(args, format);
  char line[4096];
  const int length = std::vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (current != nullptr) {
    current->text += line;
  } else {
    std::fputs(line, stdout);
  }
  return length;
}

void vl_stop(const char* file, int line, const char*) { fail(at(file, line) + ": $stop"); }

void vl_finish(const char* file, int line, const char*) { fail(at(file, line) + ": $finish"); }

// Internal errors, such as logic that does not settle: the code behind the call does not expect
// to go on, so this leaves by an exception, which the shim catches.
void vl_fatal(const char* file, int line, const char*, const char* message) {
  const std::string text = at(file, line) + ": " + (message != nullptr ? message : "fatal");
  if (current == nullptr) std::fprintf(stderr, "%s\n", text.c_str());
  fail(text);
  throw std::runtime_error(text);
}
