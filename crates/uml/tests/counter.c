// SPDX-License-Identifier: Apache-2.0
// Without a C library, which would read the counter itself. With an argument it reads the counter, around a sleep and in a loop,
// and says what it saw; without, as the first program of a guest, it only sleeps and switches the machine off.
#include <linux/reboot.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

static long call(long number, long first, long second, long third) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
  return result;
}

static uint64_t rdtsc(void) {
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
}

static uint64_t rdtscp(uint32_t *processor) {
  uint32_t low, high;
  __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(*processor));
  return (uint64_t)high << 32 | low;
}

static void say(uint64_t number) {
  char text[21];
  int at = sizeof text;
  text[--at] = '\n';
  do text[--at] = (char)('0' + number % 10);
  while (number /= 10);
  call(SYS_write, 1, (long)(text + at), sizeof text - at);
}

static uint64_t clock_ns(void) {
  struct timespec time;
  call(SYS_clock_gettime, CLOCK_MONOTONIC_RAW, (long)&time, 0);
  return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void nap(void) {
  struct timespec time = {0, 3000000};
  call(SYS_nanosleep, (long)&time, 0, 0);
}

__attribute__((used)) static void run(long *stack) {
  uint32_t processor = 7;
  uint64_t before, after, clocks[2];
  if (stack[0] < 2) {
    nap();
    call(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF);
  }
  before = rdtsc();
  after = rdtsc();
  say(after - before);
  clocks[0] = clock_ns();
  before = rdtsc();
  nap();
  after = rdtscp(&processor);
  clocks[1] = clock_ns();
  say(clocks[1] - clocks[0] - (after - before));
  say(processor);
  // It spins: others run meanwhile.
  before = rdtsc();
  while (rdtsc() - before < 20000000) {
  }
  call(SYS_exit_group, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall run\n");
