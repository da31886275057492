// SPDX-License-Identifier: Apache-2.0
// The processor's time stamp counter, as a guest's programs read it, is the guest's clock in nanoseconds: 1 GHz. For guests that
// are started with IPNUMA_UML_COUNTER; those of others read this machine's.
//
// A guest's process may not read the counter (PR_SET_TSC). Its fault comes to the kernel as a stop with SIGSEGV, but is answered
// here before the kernel sees it: time passes as for any reading of the clock, the registers are set, and the kernel is told of a
// stop with SIGALRM, which it takes for one of its own timer's: it looks whether another program is to run or a signal is to be
// delivered, and goes on. So who spins on the counter lets time pass and others run.
//
// The time, and the function that lets it pass, are the kernel's, found by their names in its own file.
//
// Programs that use the counter first compare it with the clock, which they read for a fifth of a second or more without doing
// anything else. Each of these readings is a call of the kernel and a turn of the rack's calendar; so they take longer the longer
// that has gone on: a sixteenth of it, and 16 us at most.
#define _GNU_SOURCE
#include "host.h"

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __x86_64__
// What reading the kernel's clock takes (TIMER_MULTIPLIER in arch/um).
enum { READ_NS = 256 };
// How much of the time that a program has done nothing but read the clock the next reading takes, and at most.
enum { SPIN_PART = 16, SPIN_MOST_NS = 16000 };

static int wanted;
static const unsigned long long *now;
static void (*pass)(unsigned long nanoseconds);

// The symbols of the program that runs here, which lies where its file says: it is not relocated.
static uintptr_t symbol(const unsigned char *file, const char *name, unsigned int type) {
  const Elf64_Ehdr *header = (const void *)file;
  const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
  for (unsigned int at = 0; at < header->e_shnum; at++) {
    if (sections[at].sh_type != SHT_SYMTAB) continue;
    const char *names = (const char *)file + sections[sections[at].sh_link].sh_offset;
    const Elf64_Sym *entry = (const void *)(file + sections[at].sh_offset);
    for (size_t left = sections[at].sh_size / sizeof *entry; left; left--, entry++)
      if (ELF64_ST_TYPE(entry->st_info) == type && !strcmp(names + entry->st_name, name)) return entry->st_value;
  }
  return 0;
}

// What runs here may be the program that starts the kernel, which has none of it.
__attribute__((constructor)) static void find(void) {
  wanted = !!getenv("IPNUMA_UML_COUNTER");
  if (!wanted) return;
  struct stat found;
  int file = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/exe", O_RDONLY | O_CLOEXEC);
  void *bytes = MAP_FAILED;
  if (file >= 0 && !fstat(file, &found)) bytes = mmap(NULL, (size_t)found.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  if (bytes != MAP_FAILED && ((const Elf64_Ehdr *)bytes)->e_type == ET_EXEC) {
    now = (const void *)symbol(bytes, "time_travel_time", STT_OBJECT);
    pass = (void (*)(unsigned long))symbol(bytes, "time_travel_ndelay", STT_FUNC);
  }
  if (bytes != MAP_FAILED) munmap(bytes, (size_t)found.st_size);
  if (file >= 0) close(file);
}

// In the new process.
void counter_begin(void) {
  if (!wanted) return;
  if (!now || !pass) {
    fprintf(stderr,
            "host.so: this kernel does not name time_travel_time and time_travel_ndelay, which the time stamp counter of its "
            "programs needs; take one that tools/uml-kernel built, not stripped\n");
    _exit(1);
  }
  prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
}

static int byte_at(pid_t pid, uintptr_t address) {
  long word;
  if (syscall(SYS_ptrace, PTRACE_PEEKTEXT, pid, address & ~(uintptr_t)7, &word)) return -1;
  return (int)((unsigned long)word >> 8 * (address & 7) & 0xff);
}

// The length of the instruction there if it reads the counter.
static unsigned int reads_counter(pid_t pid, uintptr_t address) {
  if (byte_at(pid, address) != 0x0f) return 0;
  int second = byte_at(pid, address + 1);
  if (second == 0x31) return 2;
  return second == 0x01 && byte_at(pid, address + 2) == 0xf9 ? 3 : 0;
}

// Whether the fault of this process was for the counter: then it has been answered.
static int answer(pid_t pid) {
  siginfo_t info;
  struct user_regs_struct registers;
  // A missing page has another code.
  if (syscall(SYS_ptrace, PTRACE_GETSIGINFO, pid, 0, &info) || info.si_code != SI_KERNEL) return 0;
  if (syscall(SYS_ptrace, PTRACE_GETREGS, pid, 0, &registers)) return 0;
  unsigned int length = reads_counter(pid, registers.rip);
  if (!length) return 0;
  pass(READ_NS);
  registers.rax = *now & 0xffffffff;
  registers.rdx = *now >> 32;
  // rdtscp: the number of the processor.
  if (length == 3) registers.rcx = 0;
  registers.rip += length;
  return !syscall(SYS_ptrace, PTRACE_SETREGS, pid, 0, &registers);
}

static int reads_clock(pid_t pid) {
  long number;
  if (syscall(SYS_ptrace, PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, orig_rax), &number)) return 0;
  return number == SYS_gettimeofday || number == SYS_clock_gettime;
}

// A call of the kernel by a process, which may have done nothing but read the clock for a while; 0: something else happened.
static void spin(pid_t pid) {
  static pid_t reader;
  static unsigned long long since;
  if (!pid || pid != reader) {
    reader = pid;
    since = *now;
    return;
  }
  unsigned long long longer = (*now - since) / SPIN_PART;
  if (longer > SPIN_MOST_NS) longer = SPIN_MOST_NS;
  if (longer > READ_NS) pass(longer - READ_NS);
}

pid_t waitpid(pid_t pid, int *status, int options) {
  pid_t stopped = (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
  if (!pass || stopped <= 0 || !status || !WIFSTOPPED(*status)) return stopped;
  int signal = WSTOPSIG(*status);
  // A call, as the kernel has told ptrace to mark them (PTRACE_O_TRACESYSGOOD).
  if (signal == (SIGTRAP | 0x80)) spin(reads_clock(stopped) ? stopped : 0);
  else if (signal != SIGALRM) spin(0);
  if (signal == SIGSEGV && answer(stopped)) *status = W_STOPCODE(SIGALRM);
  return stopped;
}
#else
void counter_begin(void) {}
#endif
