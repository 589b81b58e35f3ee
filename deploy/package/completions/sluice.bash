# bash completion for sluice: commands and flags come from the program's own help, so they are those of the version at hand.
_sluice() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "$(sluice help 2>/dev/null | sed -n 's/^  \([a-z-]*\)  .*/\1/p')" -- "$word"))
    return
  fi
  case $previous in
    --model | --tokenizer) compopt -o dirnames 2>/dev/null; return ;;
    --*_cert | --*_key | --*_ca | --*file | --file | --template | --context | --tokens) compopt -o default; return ;;
  esac
  case $word in
    -*)
      COMPREPLY=($(compgen -W "$(sluice help "${COMP_WORDS[1]}" 2>/dev/null | sed -n 's/^  \(--[a-z_]*\).*/\1/p')" -- "$word"))
      ;;
    *) compopt -o default ;;
  esac
}
complete -F _sluice sluice
