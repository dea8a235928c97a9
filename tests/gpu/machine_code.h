/* What stands in a cubin: kinds of instructions, counted, and bytes of local memory.
 *
 * A cubin is an ELF file of 64 bits; each kernel has a section .text.<name> of instructions of 16
 * bytes, whose lowest 12 bits are the operation (sm_90; what nvdisasm prints for the same words). */
#ifndef FPL_TESTS_GPU_MACHINE_CODE_H
#define FPL_TESTS_GPU_MACHINE_CODE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum machine_operation {
  MACHINE_HGMMA,   /* product of a warpgroup on the tensor cores */
  MACHINE_UTMALDG, /* copy by tensor map */
  MACHINE_UBLKCP,  /* copy of contiguous bytes */
  MACHINE_LDL,     /* load from local memory: a spill or an indexed array */
  MACHINE_STL,
  N_MACHINE_OPERATIONS
};
static const char *const machine_names[] = {"HGMMA", "UTMALDG", "UBLKCP", "LDL", "STL"};

struct machine_code {
  int n[N_MACHINE_OPERATIONS];
  int n_instructions;
  uint32_t frame_bytes; /* largest stack frame of a kernel: local memory of a thread */
};

static void machine_count(const unsigned char *text, size_t bytes, struct machine_code *out) {
  static const unsigned operations[N_MACHINE_OPERATIONS] = {0x9f0, 0x5b4, 0x3ba, 0x983, 0x387};
  enum { INSTRUCTION_BYTES = 16, OPERATION_MASK = 0xfff };
  for (size_t at = 0; at + INSTRUCTION_BYTES <= bytes; at += INSTRUCTION_BYTES) {
    const unsigned operation = (text[at] | (unsigned)text[at + 1] << 8) & OPERATION_MASK;
    out->n_instructions++;
    for (int i = 0; i < N_MACHINE_OPERATIONS; i++)
      out->n[i] += operation == operations[i];
  }
}

/* Section .nv.info: records of format, attribute and, in format 4, a size and as many bytes. The
 * frame size's payload is a symbol and the bytes. */
static void machine_frames(const unsigned char *info, size_t bytes, struct machine_code *out) {
  enum { FORMAT_SIZED = 4, ATTRIBUTE_FRAME_SIZE = 0x11 };
  for (size_t at = 0; at + 4 <= bytes;) {
    uint16_t size = 0;
    uint32_t frame_bytes = 0;
    if (info[at] == FORMAT_SIZED)
      memcpy(&size, info + at + 2, sizeof size);
    if (info[at] == FORMAT_SIZED && info[at + 1] == ATTRIBUTE_FRAME_SIZE && at + 12 <= bytes)
      memcpy(&frame_bytes, info + at + 8, sizeof frame_bytes);
    out->frame_bytes = frame_bytes > out->frame_bytes ? frame_bytes : out->frame_bytes;
    at += 4u + size;
  }
}

/* False: not such a file, or one without a kernel. */
static bool machine_read(const void *cubin, size_t bytes, struct machine_code *out) {
  const unsigned char *const file = cubin;
  Elf64_Ehdr head;
  Elf64_Shdr names, section;
  *out = (struct machine_code){0};
  if (bytes < sizeof head)
    return false;
  memcpy(&head, file, sizeof head);
  if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_shentsize != sizeof section || head.e_shstrndx >= head.e_shnum ||
      head.e_shoff > bytes || head.e_shnum > (bytes - head.e_shoff) / sizeof section)
    return false;
  memcpy(&names, file + head.e_shoff + head.e_shstrndx * sizeof names, sizeof names);
  if (names.sh_offset > bytes || names.sh_size > bytes - names.sh_offset || names.sh_size == 0 ||
      file[names.sh_offset + names.sh_size - 1] != '\0')
    return false;
  for (int i = 0; i < head.e_shnum; i++) {
    memcpy(&section, file + head.e_shoff + (size_t)i * sizeof section, sizeof section);
    if (section.sh_type == SHT_NOBITS || section.sh_name >= names.sh_size ||
        section.sh_offset > bytes || section.sh_size > bytes - section.sh_offset)
      continue;
    const char *const name = (const char *)file + names.sh_offset + section.sh_name;
    if (strncmp(name, ".text.", 6) == 0)
      machine_count(file + section.sh_offset, section.sh_size, out);
    else if (strcmp(name, ".nv.info") == 0)
      machine_frames(file + section.sh_offset, section.sh_size, out);
  }
  return out->n_instructions > 0;
}

#endif
