// fault runs a command and disturbs what it does to the files of one folder. The
// system calls of all its threads and processes are seen as they are made, so
// that the writes of Go and those of C libraries are all met.
//
//   fault FOLDER COUNTS KIND N ACTION COMMAND...
//
// COUNTS is the file that the number of calls of each kind and of disturbed ones
// goes to. KIND is open, write, sync, rename or any. The N-th call of that
// kind (from 1; 0 is none) is answered by ACTION: the name of an error, "short" (half
// of a write is done) or "kill" (the process ends just before the call); with a "+"
// at its end, an error answers all later calls of that kind too.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
#error "registers are those of x86-64"
#endif

enum kind { OPEN, WRITE, SYNC, RENAME, ANY, KINDS };
static const char *names[KINDS] = {"open", "write", "sync", "rename", "any"};

// A call, its kind, and which argument is a descriptor or a path of the folder.
static const struct call { int number; enum kind kind; int descriptor, path; } calls[] = {
    {SYS_open, OPEN, -1, 0},         {SYS_openat, OPEN, -1, 1},    {SYS_mkdir, OPEN, -1, 0},       {SYS_mkdirat, OPEN, -1, 1},
    {SYS_write, WRITE, 0, -1},       {SYS_pwrite64, WRITE, 0, -1}, {SYS_writev, WRITE, 0, -1},     {SYS_ftruncate, WRITE, 0, -1},
    {SYS_copy_file_range, WRITE, 2, -1}, {SYS_fsync, SYNC, 0, -1}, {SYS_fdatasync, SYNC, 0, -1},
    {SYS_rename, RENAME, -1, 0},     {SYS_renameat, RENAME, -1, 1}, {SYS_renameat2, RENAME, -1, 1},
};
enum { CALLS = sizeof calls / sizeof *calls };

static const struct { const char *name; int number; } errors[] = {{"ENOSPC", ENOSPC}, {"EIO", EIO}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}};

static const char *folder;
static enum kind wanted;
static long nth, seen[KINDS], disturbed;
static int error, lasting, shorten, kills;

static void fail(const char *what) {
  fprintf(stderr, "fault: %s: %s\n", what, strerror(errno));
  exit(125);
}

static void parse_action(const char *action) {
  size_t n = strlen(action);
  if ((lasting = n > 0 && action[n - 1] == '+')) n--;
  shorten = !strncmp(action, "short", n);
  kills = !strncmp(action, "kill", n);
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (!strncmp(action, errors[i].name, n)) error = errors[i].number;
}

// A filter stops the command at the calls of the table and at no others.
static void watch_calls(void) {
  struct sock_filter code[CALLS + 3];
  int n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < CALLS; i++)
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, CALLS - i, 0);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  struct sock_fprog program = {n, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) fail("filtering system calls");
}

static pid_t start(char **command) {
  pid_t pid = fork();
  if (pid < 0) fail("starting a process");
  if (pid == 0) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) fail("asking to be traced");
    raise(SIGSTOP);
    watch_calls();
    execvp(command[0], command);
    fail(command[0]);
  }
  int status;
  if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) fail("tracing");
  long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL;
  if (ptrace(PTRACE_SETOPTIONS, pid, 0, options)) fail("tracing");
  ptrace(PTRACE_CONT, pid, 0, 0);
  return pid;
}

// inside says whether a call is about a file of the folder.
static int inside(pid_t thread, const struct call *call, const unsigned long long *arguments) {
  char path[4096] = "";
  if (call->path >= 0) {
    struct iovec here = {path, sizeof path - 1}, there = {(void *)arguments[call->path], sizeof path - 1};
    // A path at the end of a page has less behind it than we ask for.
    size_t rest = 4096 - (arguments[call->path] & 4095);
    if (process_vm_readv(thread, &here, 1, &there, 1, 0) < 0) {
      there.iov_len = rest < sizeof path ? rest : sizeof path - 1;
      if (process_vm_readv(thread, &here, 1, &there, 1, 0) < 0) return 0;
    }
  } else {
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, (int)arguments[call->descriptor]);
    if (readlink(link, path, sizeof path - 1) < 0) return 0;
  }
  return !strncmp(path, folder, strlen(folder));
}

// answer counts the call at which a thread was stopped and disturbs it if it is the one.
static void answer(pid_t thread) {
  struct user_regs_struct regs;
  if (ptrace(PTRACE_GETREGS, thread, 0, &regs)) return; // it was killed meanwhile
  const struct call *call = calls;
  while (call < calls + CALLS && call->number != (int)regs.orig_rax) call++;
  unsigned long long arguments[] = {regs.rdi, regs.rsi, regs.rdx};
  if (call == calls + CALLS || !inside(thread, call, arguments)) return;
  seen[call->kind]++;
  seen[ANY]++;
  if ((wanted != ANY && wanted != call->kind) || nth == 0 || seen[wanted] < nth || (seen[wanted] > nth && !lasting)) return;
  disturbed++;
  if (kills) {
    kill(thread, SIGKILL);
    return;
  }
  if (shorten && regs.rdx > 1 && (call->number == SYS_write || call->number == SYS_pwrite64)) regs.rdx /= 2;
  if (error) {
    regs.orig_rax = -1; // the kernel does nothing and returns what stands in rax
    regs.rax = -error;
  }
  ptrace(PTRACE_SETREGS, thread, 0, &regs);
}

// follow goes on until the command and all that it started have ended, and returns the
// command's status.
static int follow(pid_t command) {
  int status, last = 0;
  for (pid_t thread; (thread = waitpid(-1, &status, __WALL)) > 0;) {
    if (!WIFSTOPPED(status)) {
      if (thread == command) last = status;
      continue;
    }
    int signal = WSTOPSIG(status), event = status >> 16;
    if (event == PTRACE_EVENT_SECCOMP) answer(thread);
    if (event || signal == SIGSTOP) signal = 0; // a new thread begins with SIGSTOP
    ptrace(PTRACE_CONT, thread, 0, signal);
  }
  return last;
}

int main(int argc, char **argv) {
  if (argc < 7) {
    fprintf(stderr, "usage: fault FOLDER COUNTS KIND N ACTION COMMAND...\n");
    return 125;
  }
  folder = argv[1];
  while (wanted < ANY && strcmp(names[wanted], argv[3])) wanted++;
  nth = atol(argv[4]);
  parse_action(argv[5]);
  int status = follow(start(argv + 6));
  FILE *out = fopen(argv[2], "w");
  if (!out) fail(argv[2]);
  fprintf(out, "{\"open\":%ld,\"write\":%ld,\"sync\":%ld,\"rename\":%ld,\"any\":%ld,\"disturbed\":%ld}\n", seen[OPEN], seen[WRITE], seen[SYNC],
          seen[RENAME], seen[ANY], disturbed);
  if (fclose(out)) fail(argv[2]);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
