# boot.S: from the boot loader to 64 bits, with the vector and tile registers switched on.
.section .multiboot,"a"
.align 4
.long 0x1BADB002, 0x3, -(0x1BADB002+3)
.section .bss
.align 4096
pml4: .skip 4096
pdpt: .skip 4096
.align 64
stack: .skip 1<<20
stack_top:
.section .text
.code32
.global _start
_start:
  cli
  mov $stack_top,%esp
  mov $pml4,%edi
  mov $pdpt,%eax
  or $3,%eax
  mov %eax,(%edi)
  mov $pdpt,%edi
  movl $0x83,(%edi)
  movl $0x40000083,8(%edi)
  movl $0x80000083,16(%edi)
  movl $0xc0000083,24(%edi)
  mov $pml4,%eax
  mov %eax,%cr3
  mov %cr4,%eax
  or $0x40620,%eax
  mov %eax,%cr4
  mov $0xC0000080,%ecx
  rdmsr
  or $0x100,%eax
  wrmsr
  mov %cr0,%eax
  and $~0xc,%eax
  or $0x80000002,%eax
  mov %eax,%cr0
  lgdt gdtp
  ljmp $8,$long
.align 8
gdt: .quad 0, 0x00209A0000000000, 0x0000920000000000
gdtp: .word 23
 .long gdt
.code64
long:
  mov $16,%ax
  mov %ax,%ds
  mov %ax,%es
  mov %ax,%ss
  mov $stack_top,%rsp
  xor %ecx,%ecx
  mov $0x600e7,%eax
  xor %edx,%edx
  xsetbv
  call main64
1: hlt
  jmp 1b
