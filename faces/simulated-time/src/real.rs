//! The functions whose place this library takes, as the libraries behind it have them.

use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

/// What comes back from a function that the C library does not have.
pub(crate) trait Missing {
    /// With errno set.
    const MISSING: Self;
}

impl Missing for c_int {
    const MISSING: Self = -1;
}

impl Missing for c_uint {
    const MISSING: Self = 0;
}

impl Missing for c_long {
    const MISSING: Self = -1;
}

impl Missing for () {
    const MISSING: Self = ();
}

impl Missing for isize {
    const MISSING: Self = -1;
}

impl<T> Missing for *mut T {
    const MISSING: Self = core::ptr::null_mut();
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The function of this name in the libraries behind this one, once it was looked for.
pub(crate) fn next(cache: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    next_of(cache, name, c"")
}

/// As [`next`], in this version, unless that is empty.
fn next_of(cache: &AtomicPtr<c_void>, name: &CStr, version: &CStr) -> *mut c_void {
    let known = cache.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name and the version are strings.
    let found = unsafe {
        if version.is_empty() {
            libc::dlsym(libc::RTLD_NEXT, name.as_ptr())
        } else {
            dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr())
        }
    };
    if found.is_null() {
        set_errno(libc::ENOSYS);
    }
    cache.store(found, Ordering::Relaxed);
    found
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: errno of this thread.
    unsafe { *libc::__errno_location() = error };
}

pub(crate) fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

macro_rules! real {
    (@version $version:literal; $(
        fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;
    )+) => {$(
        /// The C library's.
        ///
        /// # Safety
        ///
        /// As for that function.
        pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
            static NEXT: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
            type Function = unsafe extern "C" fn($($type),*) -> $result;
            let name = concat!(stringify!($name), "\0");
            // SAFETY: it ends with its only zero.
            let name = unsafe { CStr::from_bytes_with_nul_unchecked(name.as_bytes()) };
            let function = next_of(&NEXT, name, $version);
            if function.is_null() {
                return <$result as Missing>::MISSING;
            }
            // SAFETY: the C library's function of this name has this type.
            let function: Function = unsafe { core::mem::transmute(function) };
            // SAFETY: the arguments are the caller's.
            unsafe { function($($argument),*) }
        }
    )+};
    (fn $($rest:tt)+) => {
        real! { @version c""; fn $($rest)+ }
    };
}

real! {
    fn clock_gettime(clock: c_int, to: *mut libc::timespec) -> c_int;
    fn clock_getres(clock: c_int, to: *mut libc::timespec) -> c_int;
    fn gettimeofday(to: *mut libc::timeval, zone: *mut c_void) -> c_int;
    fn time(to: *mut libc::time_t) -> c_long;
    fn timespec_get(to: *mut libc::timespec, base: c_int) -> c_int;
    fn clock() -> c_long;
    fn times(to: *mut libc::tms) -> c_long;
    fn getrusage(whose: c_int, to: *mut libc::rusage) -> c_int;
    fn nanosleep(how_long: *const libc::timespec, left: *mut libc::timespec) -> c_int;
    fn clock_nanosleep(
        clock: c_int,
        flags: c_int,
        how_long: *const libc::timespec,
        left: *mut libc::timespec
    ) -> c_int;
    fn usleep(microseconds: c_uint) -> c_int;
    fn sleep(seconds: c_uint) -> c_uint;
    fn sched_yield() -> c_int;
    fn sigaction(
        signal: c_int,
        new: *const libc::sigaction,
        old: *mut libc::sigaction
    ) -> c_int;
    fn sigprocmask(
        how: c_int,
        set: *const libc::sigset_t,
        old: *mut libc::sigset_t
    ) -> c_int;
    fn pthread_sigmask(
        how: c_int,
        set: *const libc::sigset_t,
        old: *mut libc::sigset_t
    ) -> c_int;
    fn alarm(seconds: c_uint) -> c_uint;
    fn setitimer(which: c_int, new: *const libc::itimerval, old: *mut libc::itimerval) -> c_int;
    fn getitimer(which: c_int, to: *mut libc::itimerval) -> c_int;
    fn timer_create(
        clock: libc::clockid_t,
        event: *mut libc::sigevent,
        to: *mut libc::timer_t
    ) -> c_int;
    fn timer_settime(
        timer: libc::timer_t,
        flags: c_int,
        new: *const libc::itimerspec,
        old: *mut libc::itimerspec
    ) -> c_int;
    fn timer_gettime(timer: libc::timer_t, to: *mut libc::itimerspec) -> c_int;
    fn timer_getoverrun(timer: libc::timer_t) -> c_int;
    fn timer_delete(timer: libc::timer_t) -> c_int;
    fn timerfd_create(clock: libc::clockid_t, flags: c_int) -> c_int;
    fn timerfd_settime(
        descriptor: c_int,
        flags: c_int,
        new: *const libc::itimerspec,
        old: *mut libc::itimerspec
    ) -> c_int;
    fn timerfd_gettime(descriptor: c_int, to: *mut libc::itimerspec) -> c_int;
    fn sigsuspend(mask: *const libc::sigset_t) -> c_int;
    fn pause() -> c_int;
    fn sigtimedwait(
        set: *const libc::sigset_t,
        about: *mut libc::siginfo_t,
        timeout: *const libc::timespec
    ) -> c_int;
    fn sigwaitinfo(set: *const libc::sigset_t, about: *mut libc::siginfo_t) -> c_int;
    fn sigwait(set: *const libc::sigset_t, signal: *mut c_int) -> c_int;
    fn kill(process: libc::pid_t, number: c_int) -> c_int;
    fn killpg(group: libc::pid_t, number: c_int) -> c_int;
    fn tgkill(process: libc::pid_t, thread: libc::pid_t, number: c_int) -> c_int;
    fn sigqueue(process: libc::pid_t, number: c_int, value: libc::sigval) -> c_int;
    fn pthread_kill(thread: libc::pthread_t, number: c_int) -> c_int;

    fn read(descriptor: c_int, to: *mut c_void, length: usize) -> isize;
    fn readv(descriptor: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    fn recvfrom(
        descriptor: c_int,
        to: *mut c_void,
        length: usize,
        flags: c_int,
        from: *mut libc::sockaddr,
        from_length: *mut libc::socklen_t
    ) -> isize;
    fn recvmsg(descriptor: c_int, message: *mut libc::msghdr, flags: c_int) -> isize;
    fn write(descriptor: c_int, from: *const c_void, length: usize) -> isize;
    fn writev(descriptor: c_int, parts: *const libc::iovec, count: c_int) -> isize;
    fn sendmsg(descriptor: c_int, message: *const libc::msghdr, flags: c_int) -> isize;
    fn accept(
        descriptor: c_int,
        address: *mut libc::sockaddr,
        length: *mut libc::socklen_t
    ) -> c_int;
    fn accept4(
        descriptor: c_int,
        address: *mut libc::sockaddr,
        length: *mut libc::socklen_t,
        flags: c_int
    ) -> c_int;
    fn connect(
        descriptor: c_int,
        address: *const libc::sockaddr,
        length: libc::socklen_t
    ) -> c_int;
    fn bind(
        descriptor: c_int,
        address: *const libc::sockaddr,
        length: libc::socklen_t
    ) -> c_int;
    fn listen(descriptor: c_int, waiting_max: c_int) -> c_int;
    fn shutdown(descriptor: c_int, how: c_int) -> c_int;
    fn close(descriptor: c_int) -> c_int;
    fn poll(entries: *mut libc::pollfd, count: libc::nfds_t, timeout_ms: c_int) -> c_int;
    fn ppoll(
        entries: *mut libc::pollfd,
        count: libc::nfds_t,
        timeout: *const libc::timespec,
        mask: *const libc::sigset_t
    ) -> c_int;
    fn select(
        count: c_int,
        read: *mut libc::fd_set,
        write: *mut libc::fd_set,
        except: *mut libc::fd_set,
        timeout: *mut libc::timeval
    ) -> c_int;
    fn pselect(
        count: c_int,
        read: *mut libc::fd_set,
        write: *mut libc::fd_set,
        except: *mut libc::fd_set,
        timeout: *const libc::timespec,
        mask: *const libc::sigset_t
    ) -> c_int;
    fn epoll_pwait(
        epoll: c_int,
        events: *mut libc::epoll_event,
        count: c_int,
        timeout_ms: c_int,
        mask: *const libc::sigset_t
    ) -> c_int;

    fn wait4(
        pid: libc::pid_t,
        status: *mut c_int,
        options: c_int,
        usage: *mut libc::rusage
    ) -> libc::pid_t;
    fn waitid(
        kind: c_uint,
        id: c_uint,
        about: *mut libc::siginfo_t,
        options: c_int
    ) -> c_int;
    fn fork() -> libc::pid_t;
    fn system(command: *const c_char) -> c_int;
    fn posix_spawn(
        pid: *mut libc::pid_t,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *mut c_char,
        environment: *const *mut c_char
    ) -> c_int;
    fn posix_spawnp(
        pid: *mut libc::pid_t,
        file: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *mut c_char,
        environment: *const *mut c_char
    ) -> c_int;
    fn gethostname(to: *mut c_char, length: usize) -> c_int;
    fn uname(to: *mut libc::utsname) -> c_int;
    fn getaddrinfo(
        node: *const c_char,
        service: *const c_char,
        hints: *const libc::addrinfo,
        found: *mut *mut libc::addrinfo
    ) -> c_int;
    fn gethostbyname(name: *const c_char) -> *mut c_void;
    fn gethostbyname2(name: *const c_char, family: c_int) -> *mut c_void;
    fn gethostbyname_r(
        name: *const c_char,
        to: *mut c_void,
        room: *mut c_char,
        length: usize,
        found: *mut *mut c_void,
        error: *mut c_int
    ) -> c_int;

    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        routine: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void
    ) -> c_int;
    fn pthread_join(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int;
    fn pthread_tryjoin_np(thread: libc::pthread_t, result: *mut *mut c_void) -> c_int;
    fn pthread_timedjoin_np(
        thread: libc::pthread_t,
        result: *mut *mut c_void,
        time: *const libc::timespec
    ) -> c_int;
    fn pthread_detach(thread: libc::pthread_t) -> c_int;
    fn pthread_mutex_lock(mutex: *mut libc::pthread_mutex_t) -> c_int;
    fn pthread_mutex_trylock(mutex: *mut libc::pthread_mutex_t) -> c_int;
    fn pthread_mutex_timedlock(
        mutex: *mut libc::pthread_mutex_t,
        time: *const libc::timespec
    ) -> c_int;
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        time: *const libc::timespec
    ) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut libc::pthread_mutex_t) -> c_int;
    fn sem_wait(semaphore: *mut libc::sem_t) -> c_int;
    fn sem_trywait(semaphore: *mut libc::sem_t) -> c_int;
    fn sem_timedwait(semaphore: *mut libc::sem_t, time: *const libc::timespec) -> c_int;
    fn sem_clockwait(
        semaphore: *mut libc::sem_t,
        clock: libc::clockid_t,
        time: *const libc::timespec
    ) -> c_int;
    fn sem_post(semaphore: *mut libc::sem_t) -> c_int;
    fn pthread_rwlock_rdlock(lock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_tryrdlock(lock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_timedrdlock(
        lock: *mut libc::pthread_rwlock_t,
        time: *const libc::timespec
    ) -> c_int;
    fn pthread_rwlock_wrlock(lock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_trywrlock(lock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_rwlock_timedwrlock(
        lock: *mut libc::pthread_rwlock_t,
        time: *const libc::timespec
    ) -> c_int;
    fn pthread_rwlock_unlock(lock: *mut libc::pthread_rwlock_t) -> c_int;
    fn pthread_spin_init(lock: *mut libc::pthread_spinlock_t, shared: c_int) -> c_int;
    fn pthread_spin_destroy(lock: *mut libc::pthread_spinlock_t) -> c_int;
    fn pthread_spin_lock(lock: *mut libc::pthread_spinlock_t) -> c_int;
    fn pthread_spin_trylock(lock: *mut libc::pthread_spinlock_t) -> c_int;
    fn pthread_spin_unlock(lock: *mut libc::pthread_spinlock_t) -> c_int;
    fn pthread_barrier_init(
        barrier: *mut libc::pthread_barrier_t,
        attributes: *const libc::pthread_barrierattr_t,
        count: c_uint
    ) -> c_int;
    fn pthread_barrier_wait(barrier: *mut libc::pthread_barrier_t) -> c_int;
    fn pthread_barrier_destroy(barrier: *mut libc::pthread_barrier_t) -> c_int;
    fn getrandom(to: *mut c_void, length: usize, flags: c_uint) -> isize;
    fn getentropy(to: *mut c_void, length: usize) -> c_int;
    fn arc4random() -> c_uint;
    fn arc4random_buf(to: *mut c_void, length: usize) -> ();
    fn arc4random_uniform(bound: c_uint) -> c_uint;
    fn syscall(
        number: c_long,
        first: c_long,
        second: c_long,
        third: c_long,
        fourth: c_long,
        fifth: c_long,
        sixth: c_long
    ) -> c_long;
}

real! {
    // Before this version they had another structure.
    @version c"GLIBC_2.3.2";
    fn pthread_cond_init(
        condition: *mut libc::pthread_cond_t,
        attributes: *const libc::pthread_condattr_t
    ) -> c_int;
    fn pthread_cond_destroy(condition: *mut libc::pthread_cond_t) -> c_int;
    fn pthread_cond_wait(
        condition: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t
    ) -> c_int;
    fn pthread_cond_timedwait(
        condition: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
        time: *const libc::timespec
    ) -> c_int;
    fn pthread_cond_signal(condition: *mut libc::pthread_cond_t) -> c_int;
    fn pthread_cond_broadcast(condition: *mut libc::pthread_cond_t) -> c_int;
}

real! {
    fn pthread_cond_clockwait(
        condition: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        time: *const libc::timespec
    ) -> c_int;
}
