/* Loading libibverbs; see ibv_load.c. */
#ifndef RAWVERBS_IBV_LOAD_H
#define RAWVERBS_IBV_LOAD_H

/* rv_load loads libibverbs and finds its functions. It returns NULL, or why it
 * could not be loaded, in words that are valid until the thread's next dlopen.
 * To be called once, before everything else. */
const char *rv_load(void);

#endif
