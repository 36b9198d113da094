/* The main of a fuzz target in ordinary builds: feeds it every file named in argv, and every file
 * of each directory named there.  Exit status 1 if there was none: an empty corpus tests nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/fs.h"
#include "common/util.h"

enum { MAX_FILE_BYTES = 64 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path, size_t *count)
{
    struct err err = {0};
    char *text = NULL;
    size_t len = 0;
    if (fs_read(path, MAX_FILE_BYTES, &text, &len, &err) != 0) {
        fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    /* An exact copy, so that a read behind the end is seen by the address sanitizer. */
    uint8_t *data = malloc(len ? len : 1);
    if (!data)
        abort();
    if (len)
        memcpy(data, text, len);
    free(text);
    LLVMFuzzerTestOneInput(data, len);
    free(data);
    (*count)++;
    return 0;
}

static int replay(const char *path, size_t *count)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(st.st_mode))
        return replay_file(path, count);
    struct dirent **entries = NULL;
    int found = scandir(path, &entries, NULL, alphasort), rc = found < 0 ? -1 : 0;
    for (int i = 0; i < found; i++) {
        AUTO(free_str) char *file = str_printf("%s/%s", path, entries[i]->d_name);
        if (rc == 0 && stat(file, &st) == 0 && S_ISREG(st.st_mode))
            rc = replay_file(file, count);
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++)
        if (replay(argv[i], &count) != 0)
            return 1;
    if (count == 0) {
        fprintf(stderr, "no input found: name corpus files or directories\n");
        return 1;
    }
    printf("%zu inputs replayed\n", count);
    return 0;
}
