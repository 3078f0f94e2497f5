# libmlsys. `make help` lists the targets.
CONFIG ?= release
CUDA   ?= auto
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
BUILD  ?= build
CC     ?= cc
AR     ?= ar
PYTHON ?= python3
PKG_CONFIG ?= pkg-config

VERSION := $(shell sed -n 's/^\#define MLSYS_VERSION_STRING "\(.*\)"/\1/p' include/mlsys/mlsys.h)
# Before 1.0 the ABI may change with each minor version, so it is part of the soname.
SOVERSION := $(shell echo $(VERSION) | sed 's/^\(0\.[0-9]*\)\..*/\1/; s/^\([1-9][0-9]*\)\..*/\1/')
SONAME := libmlsys.so.$(SOVERSION)
OUT := $(BUILD)/$(CONFIG)

# ---- configurations ---------------------------------------------------------------------------
CFLAGS_release := -O2 -g
CFLAGS_debug   := -O0 -g3 -DMLSI_DEBUG=1
CFLAGS_asan    := -O1 -g -fsanitize=address -fno-omit-frame-pointer -DMLSI_DEBUG=1
CFLAGS_ubsan   := -O1 -g -fsanitize=undefined,float-cast-overflow -fno-sanitize-recover=all -DMLSI_DEBUG=1
CFLAGS_tsan    := -O1 -g -fsanitize=thread -DMLSI_DEBUG=1
CFLAGS_cov     := -O0 -g --coverage -DMLSI_DEBUG=1
LDFLAGS_asan   := -fsanitize=address
LDFLAGS_ubsan  := -fsanitize=undefined
LDFLAGS_tsan   := -fsanitize=thread
LDFLAGS_cov    := --coverage
ifeq ($(CFLAGS_$(CONFIG)),)
$(error CONFIG=$(CONFIG) is unknown: release debug asan ubsan tsan cov)
endif
WERROR ?=
WARN := -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
        -Wno-missing-field-initializers $(if $(WERROR),-Werror)
# Floating point is a contract: no contraction, no reassociation, no excess precision.
FP := -ffp-contract=off -fno-fast-math
BASE_CFLAGS := -std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -fno-math-errno $(FP) $(WARN) \
               -Iinclude -Isrc -MMD -MP $(CFLAGS_$(CONFIG)) $(CFLAGS)
LIBS := -lm -lpthread

# ---- optional parts ---------------------------------------------------------------------------
HAVE_PCRE2 := $(shell $(PKG_CONFIG) --exists libpcre2-8 2>/dev/null && echo 1)
HAVE_UTF8PROC := $(shell $(PKG_CONFIG) --exists libutf8proc 2>/dev/null && echo 1)
ifeq ($(HAVE_PCRE2),1)
BASE_CFLAGS += -DMLSI_HAVE_PCRE2=1 $(shell $(PKG_CONFIG) --cflags libpcre2-8)
LIBS += $(shell $(PKG_CONFIG) --libs libpcre2-8)
endif
ifeq ($(HAVE_UTF8PROC),1)
BASE_CFLAGS += -DMLSI_HAVE_UTF8PROC=1 $(shell $(PKG_CONFIG) --cflags libutf8proc)
LIBS += $(shell $(PKG_CONFIG) --libs libutf8proc)
endif

# ---- sources ----------------------------------------------------------------------------------
ROOMS := api core ir/graph ir/ops ir/passes ir/loop ir/codegen ir/proof autodiff run cpu model quant \
         train engine
SRC := $(foreach r,$(ROOMS),$(sort $(wildcard src/$(r)/*.c)))
KERNELS := $(sort $(wildcard src/cpu/kernels/*.c))
# Each kernel source is compiled once per instruction set; src/cpu/simd.h picks the vocabulary.
ISAS := portable avx2 avx512
ISA_CFLAGS_portable := -DMLSI_ISA_IS_PORTABLE=1
ISA_CFLAGS_avx2     := -DMLSI_ISA_IS_AVX2=1 -mavx2 -mfma -mf16c
ISA_CFLAGS_avx512   := -DMLSI_ISA_IS_AVX512=1 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
KERNEL_CFLAGS := -O3
ifneq ($(filter $(CONFIG),debug cov),)
KERNEL_CFLAGS :=
endif
OBJ := $(SRC:src/%.c=$(OUT)/obj/%.o) \
       $(foreach i,$(ISAS),$(KERNELS:src/cpu/kernels/%.c=$(OUT)/obj/cpu/kernels/%.$(i).o))

LIB_SHARED := $(OUT)/libmlsys.so.$(VERSION)
LIB_STATIC := $(OUT)/libmlsys.a

.PHONY: all lib check check-peer bench examples demo format lint symbols golden fuzz docs install \
        uninstall dist clean help
all: lib examples
lib: $(LIB_SHARED) $(LIB_STATIC) $(OUT)/mlsys.pc

$(OUT)/obj/cpu/kernels/%.portable.o: src/cpu/kernels/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(KERNEL_CFLAGS) $(ISA_CFLAGS_portable) -c $< -o $@
$(OUT)/obj/cpu/kernels/%.avx2.o: src/cpu/kernels/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(KERNEL_CFLAGS) $(ISA_CFLAGS_avx2) -c $< -o $@
$(OUT)/obj/cpu/kernels/%.avx512.o: src/cpu/kernels/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) $(KERNEL_CFLAGS) $(ISA_CFLAGS_avx512) -c $< -o $@
$(OUT)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -c $< -o $@

$(LIB_SHARED): $(OBJ) src/libmlsys.map
	$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=src/libmlsys.map \
	  -Wl,--exclude-libs,ALL -Wl,-z,nodelete $(if $(filter asan ubsan tsan,$(CONFIG)),,-Wl,-z,defs) \
	  $(LDFLAGS_$(CONFIG)) $(LDFLAGS) -o $@ $(OBJ) $(LIBS)
	ln -sf libmlsys.so.$(VERSION) $(OUT)/$(SONAME)
	ln -sf $(SONAME) $(OUT)/libmlsys.so
$(LIB_STATIC): $(OBJ)
	rm -f $@ && $(AR) rcs $@ $(OBJ)

# ---- tests: unit suites link the static library and may look inside --------------------------
CHECK_CFLAGS := $(shell $(PKG_CONFIG) --cflags check 2>/dev/null)
CHECK_LIBS := $(shell $(PKG_CONFIG) --libs check 2>/dev/null)
TEST_DIRS := unit conformance errors oom e2e
TEST_SRC := $(foreach d,$(TEST_DIRS),$(sort $(wildcard tests/$(d)/check_*.c)))
TEST_BIN := $(TEST_SRC:tests/%.c=$(OUT)/tests/%)
TEST_LIB_SRC := $(sort $(wildcard tests/support/*.c))
TEST_LIB_OBJ := $(TEST_LIB_SRC:%.c=$(OUT)/obj/%.o)
$(OUT)/obj/tests/%.o: tests/%.c
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -Itests $(CHECK_CFLAGS) -c $< -o $@
$(OUT)/tests/%: tests/%.c $(TEST_LIB_OBJ) $(LIB_STATIC)
	@mkdir -p $(@D)
	$(CC) $(BASE_CFLAGS) -Itests $(CHECK_CFLAGS) $(LDFLAGS_$(CONFIG)) $< $(TEST_LIB_OBJ) $(LIB_STATIC) -o $@ \
	  $(CHECK_LIBS) $(LIBS)
tests: $(TEST_BIN)
.PRECIOUS: $(OUT)/tests/% $(OUT)/obj/tests/%.o

-include $(OBJ:.o=.d) $(TEST_BIN:=.d) $(TEST_LIB_OBJ:.o=.d)

clean:
	rm -rf $(BUILD)
