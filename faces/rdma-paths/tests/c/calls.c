/* Calls the C library's functions that take a path, with paths of an adapter that is not there. Says
   which of them did not find it. */

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "/sys/class/infiniband/viaduct0/node_type"
#define FOLDER "/sys/class/infiniband/viaduct0"
#define DEVICE "/dev/infiniband/uverbs0"

static int failed;

static void check(int found, const char *call)
{
    if (!found) {
        printf("%s\n", call);
        failed = 1;
    }
}

#define CHECK(call) check((call), #call)

static int visited;

static int visit(const char *path, const struct stat *found, int kind, struct FTW *place)
{
    (void)path, (void)found, (void)kind, (void)place;
    visited++;
    return 0;
}

int main(void)
{
    struct stat found;
    struct stat64 found64;
    struct statx more;
    struct dirent **list;
    char text[PATH_MAX];
    glob_t globbed;
    FILE *stream;
    DIR *folder;
    char *path;
    int descriptor;

    CHECK((descriptor = open(FILE_NAME, O_RDONLY)) >= 0 && close(descriptor) == 0);
    CHECK((descriptor = open64(FILE_NAME, O_RDONLY)) >= 0 && close(descriptor) == 0);
    CHECK((descriptor = openat(AT_FDCWD, FILE_NAME, O_RDONLY)) >= 0 && close(descriptor) == 0);
    CHECK((descriptor = open(DEVICE, O_RDWR | O_CLOEXEC)) >= 0 && close(descriptor) == 0);
    CHECK(stat(DEVICE, &found) == 0 && S_ISCHR(found.st_mode));
    CHECK(stat64(DEVICE, &found64) == 0 && S_ISCHR(found64.st_mode));
    CHECK(lstat(FILE_NAME, &found) == 0 && S_ISREG(found.st_mode));
    CHECK(fstatat(AT_FDCWD, FILE_NAME, &found, 0) == 0 && S_ISREG(found.st_mode));
    CHECK(statx(AT_FDCWD, FILE_NAME, 0, STATX_MODE, &more) == 0 && S_ISREG(more.stx_mode));
    CHECK(access(DEVICE, R_OK | W_OK) == 0);
    CHECK(eaccess(FILE_NAME, R_OK) == 0);
    CHECK(faccessat(AT_FDCWD, FILE_NAME, R_OK, 0) == 0);
    CHECK(readlink(DEVICE, text, sizeof text) == 9 && memcmp(text, "/dev/null", 9) == 0);
    CHECK(readlinkat(AT_FDCWD, DEVICE, text, sizeof text) == 9);
    CHECK((folder = opendir(FOLDER)) != NULL && closedir(folder) == 0);
    CHECK(scandir(FOLDER, &list, NULL, alphasort) == 4);
    CHECK(realpath(FOLDER, text) != NULL);
    CHECK((path = canonicalize_file_name(FOLDER)) != NULL);
    free(path);
    CHECK((stream = fopen(FILE_NAME, "r")) != NULL && fgets(text, sizeof text, stream) != NULL);
    CHECK((stream = freopen(FILE_NAME, "r", stream)) != NULL && fclose(stream) == 0);
    CHECK(glob("/sys/class/infiniband/*", 0, NULL, &globbed) == 0 && globbed.gl_pathc == 1);
    CHECK(nftw(FOLDER, visit, 8, 0) == 0 && visited > 3);
    CHECK(chdir(FOLDER) == 0 && access("node_type", R_OK) == 0);
    return failed;
}
