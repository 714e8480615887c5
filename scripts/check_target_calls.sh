#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks which functions libtbprof_preload.so calls in a target.
#
#   scripts/check_target_calls.sh BUILD_DIR
#
# The library runs inside malloc, with the program's locks held, in signal handlers and in forked
# children. There,
# * a cancellation point (close, write, poll...) acts on a pending pthread_cancel: the thread ends
#   inside malloc with the program's mutex held. System calls go through syscall(), which is none;
# * an allocation, a lock, stdio or lazy thread-local storage can wait for what the thread holds;
# * a call of a hooked name by that name enters our own hook.
# So the functions it may call by name are listed here, with their reasons; what a hook forwards to
# is looked up by dlsym or dlvsym.

. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

(($# == 1)) || usage_error "expected a build directory"
library=$(find_library "$1" libtbprof_preload.so)

# Neither cancellation points nor takers of locks, except where said.
ALLOWED='
syscall                          every system call of ours
memcpy memmove memset memcmp memchr    pure
strlen strnlen strcmp strncmp strchr strrchr strstr  pure
__errno_location                 to keep errno as the program left it
environ __environ                read in the constructor
getenv secure_getenv             read in the constructor
getauxval                        page size, vDSO, AT_SECURE
dlsym dlvsym dlerror             in the constructor and at first use: takes the loader lock
dl_iterate_phdr                  module list: takes the loader lock, never from a malloc hook
dladdr dladdr1                   which object a function is in, with dlsym: takes the loader lock
dlopen                           of no name in the constructor, else with RTLD_NOLOAD in a late hook: loads nothing
dlclose                          of what that has given, whose library its caller holds: nothing ends, no system call
pthread_self pthread_attr_init pthread_attr_getstacksize pthread_getcpuclockid  pure
pthread_attr_setdetachstate pthread_attr_setstacksize pthread_attr_destroy  of our own thread, at the first cuInit
pthread_rwlock_tryrdlock pthread_rwlock_trywrlock pthread_mutex_trylock sem_trywait  never wait
pthread_key_create pthread_getspecific pthread_setspecific  told of thread exit; the first 32 keys do not allocate
__register_atfork                pthread_atfork, in the constructor
clock_gettime                    vDSO
sigsetjmp __sigsetjmp siglongjmp pure, without the signal mask
__gmon_start__ _ITM_deregisterTMCloneTable _ITM_registerTMCloneTable  weak, of the compiler start files
'
# Referred to by the start files of every shared library, as a weak symbol.
WEAK_ONLY='__cxa_finalize'

# POSIX.1-2017, 2.9.5: "shall occur" and those of "may occur" that glibc implements so; then
# glibc's own names and variants.
CANCELLATION_POINTS='
accept aio_suspend clock_nanosleep close connect creat fcntl fdatasync fsync getmsg getpmsg lockf
mq_receive mq_send mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep open openat pause poll
pread pselect pthread_cond_timedwait pthread_cond_wait pthread_join pthread_testcancel putmsg
putpmsg pwrite read readv recv recvfrom recvmsg select sem_timedwait sem_wait send sendmsg sendto
sigpause sigsuspend sigtimedwait sigwait sigwaitinfo sleep system tcdrain usleep wait waitid waitpid
write writev
access asctime asctime_r catclose catgets catopen chmod chown closedir closelog ctermid ctime
ctime_r dlclose dlopen dprintf endgrent endhostent endnetent endprotoent endpwent endservent
endutxent faccessat fchmod fchmodat fchown fchownat fclose fflush fgetc fgetpos fgets fgetwc fgetws
fmtmsg fopen fpathconf fprintf fputc fputs fputwc fputws fread freopen fscanf fseek fseeko fsetpos
fstat fstatat ftell ftello futimens fwprintf fwrite fwscanf getaddrinfo getc getchar getcwd getdate
getdelim getgrent getgrgid getgrgid_r getgrnam getgrnam_r gethostent gethostid gethostname getline
getlogin getlogin_r getnameinfo getpwent getpwnam getpwnam_r getpwuid getpwuid_r getwc getwchar glob
iconv_close iconv_open ioctl link linkat lio_listio localtime localtime_r lseek lstat mkdir mkdirat
mkdtemp mkfifo mkfifoat mknod mknodat mkstemp mktime nftw opendir openlog pathconf pclose perror
popen posix_fadvise posix_fallocate posix_madvise posix_openpt posix_spawn posix_spawnp
posix_trace_clear pthread_rwlock_rdlock pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock
pthread_rwlock_wrlock putc putchar puts putwc putwchar readdir readdir_r readlink readlinkat remove
rename renameat rewind rewinddir scandir scanf seekdir semop setgrent sethostent setpwent
sigwaitinfo stat strerror strerror_r strftime symlink symlinkat sync syslog tmpfile tmpnam ttyname
ttyname_r tzset ungetc ungetwc unlink unlinkat utime utimensat utimes vdprintf vfprintf vfwprintf
vprintf vwprintf wcsftime wordexp wprintf wscanf printf
accept4 copy_file_range epoll_pwait epoll_pwait2 epoll_wait fallocate fallocate64 fcntl64
getrandom getentropy open64 openat64 creat64 ppoll pread64 preadv preadv2 preadv64 preadv64v2
pthread_clockjoin_np pthread_cond_clockwait pthread_timedjoin_np pthread_tryjoin_np pwrite64 pwritev
pwritev2 pwritev64 pwritev64v2 recvmmsg sem_clockwait sendmmsg splice sync_file_range tee vmsplice
wait3 wait4 lockf64 __close __open __open64 __read __write __poll __select __wait __waitpid
__nanosleep __connect __send __fcntl __open_2 __open64_2 __openat_2 __openat64_2 __read_chk
__pread_chk __pread64_chk __recv_chk __recvfrom_chk __poll_chk __ppoll_chk
'
ALLOCATION='
malloc calloc realloc reallocarray free memalign aligned_alloc posix_memalign valloc pvalloc cfree
strdup strndup asprintf vasprintf __libc_malloc __libc_free __libc_calloc __libc_realloc
_Znwm _Znam _ZdlPv _ZdlPvm _ZdaPv _ZdaPvm __strdup __strndup __asprintf_chk
'

# Calls of exported names from inside: a call through the linkage table carries the name in the
# object file even where the linker resolves it within the library.
own_hook_calls() {
  local exports objects
  exports=$(nm -D --defined-only --format=posix "$library" | awk '{ sub(/@.*/, "", $1); print $1 }' | sort -u)
  mapfile -t objects < <(find "$1" -path '*/preload/*' -name '*.o' -not -path '*/tests/*')
  ((${#objects[@]})) || return 0
  readelf -rW "${objects[@]}" 2>/dev/null |
    awk 'NR == FNR { exported[$1]; next }
         $3 ~ /^R_X86_64_PLT32$|^R_AARCH64_(CALL|JUMP)26$/ && $5 in exported { print $5 }' \
      <(printf '%s\n' "$exports") - | sort -u
}

# In a row, what stands before two spaces are names, the rest is the reason.
allowed=$(awk 'NF { sub(/^ +/, ""); n = match($0, /  /); print n ? substr($0, 1, n - 1) : $0 }' <<<"$ALLOWED" | tr ' ' '\n')

forbidden=$(nm -D --undefined-only --format=posix "$library" |
  awk -v weak_only=" $WEAK_ONLY " '
    NR == FNR { allowed[$1]; next }
    {
      sub(/@.*/, "", $1)
      if ($1 in allowed || ($2 ~ /^[wv]$/ && index(weak_only, " " $1 " "))) next
      print $1
    }' <(printf '%s\n' "$allowed") - | sort -u)
recursive=$(own_hook_calls "$1")

why() {
  local name=$1
  local cancellation=" ${CANCELLATION_POINTS//$'\n'/ } " allocation=" ${ALLOCATION//$'\n'/ } "
  if [[ $cancellation == *" $name "* ]]; then
    echo "a cancellation point: use syscall()"
  elif [[ $allocation == *" $name "* ]]; then
    echo "allocates or frees: the caller may be inside malloc"
  else
    case $name in
      __tls_get_addr | __tls_desc*) echo "lazy thread-local storage may allocate: tls_model(\"initial-exec\")" ;;
      __cxa_guard_*) echo "a function-local static: use a constant-initialised global" ;;
      __cxa_atexit | __cxa_thread_atexit*) echo "a destructor at exit: use trivially destructible objects" ;;
      __cxa_* | _Unwind_* | __gxx_*) echo "exceptions: build with -fno-exceptions" ;;
      __stack_chk_fail | __*_chk) echo "aborts the target: build without stack protector and with -U_FORTIFY_SOURCE" ;;
      abort | exit | _exit | _Exit | __assert* | quick_exit) echo "ends the target" ;;
      *printf* | *scanf* | std* | f[a-z]*) echo "stdio takes locks and allocates" ;;
      _Z*) echo "the C++ library, which a target may have in another version" ;;
      pthread_mutex_* | pthread_rwlock_* | pthread_spin_lock | pthread_barrier_* | pthread_once | sem_*) echo "can wait for what the thread holds" ;;
      *) echo "not in the list of $0: add it with its reason, or use syscall()" ;;
    esac
  fi
}

if [[ -n $forbidden || -n $recursive ]]; then
  for name in $forbidden; do printf '%s: %s\n' "$name" "$(why "$name")"; done
  for name in $recursive; do printf '%s: called by name, which enters our own hook: call the original or a common function\n' "$name"; done
  usage >&2
  fail "$library calls what no target code may call"
fi
echo "check_target_calls.sh: $(nm -D --undefined-only "$library" | wc -l) outside names, all in the list"
