# fish completion for sluice: commands and flags come from the program's own help, so they are those of the version at hand.
function __sluice_commands
    sluice help 2>/dev/null | string replace -rf '^  ([a-z-]+)  +(.*)' '$1\t$2'
end
function __sluice_flags
    set -l command (commandline -opc)[2]
    sluice help $command 2>/dev/null | string replace -rf '^  (--[a-z_]+)(?: \S+)*(?:  +(.*))?$' '$1\t$2'
end
complete -c sluice -n __fish_use_subcommand -f -a '(__sluice_commands)'
complete -c sluice -n 'not __fish_use_subcommand' -a '(__sluice_flags)'
